-- The records of the store in the hash KEYS[1], or the record of worker ARGV[2]:
-- {'loaded', the server's time, worker, record, worker, record, ...},
-- {'wiped', worker} if that worker ID is in the set KEYS[2] of the worker IDs that
-- were used, and has no record, or
-- {'missing'} if there is no store.
--
-- If ARGV[1] is 'write', it writes the field 'created' again, with the value that it has:
-- WAIT waits for what its connection has written, and so for all writes before it.
local time = redis.call('TIME')
local reply = {'loaded', time[1] .. '.' .. string.format('%06d', time[2])}
local found = redis.call('HMGET', KEYS[1], 'created', ARGV[2] or 'created')
if not found[1] then
  return {'missing'}
end
if ARGV[1] == 'write' then
  redis.call('HSET', KEYS[1], 'created', found[1])
end
if ARGV[2] then
  if found[2] then
    reply[3], reply[4] = ARGV[2], found[2]
  elseif redis.call('SISMEMBER', KEYS[2], ARGV[2]) == 1 then
    return {'wiped', ARGV[2]}
  end
  return reply
end
local stored = {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  stored[all[i]] = true
  if all[i] ~= 'created' then
    reply[#reply + 1] = all[i]
    reply[#reply + 1] = all[i + 1]
  end
end
for _, worker in ipairs(redis.call('SMEMBERS', KEYS[2])) do
  if not stored[worker] then
    return {'wiped', worker}
  end
end
return reply
