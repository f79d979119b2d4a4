-- The records of the workers ARGV[1] to ARGV[2] in the hash KEYS[1]:
-- {'loaded', the server's time, worker, record, worker, record, ...}, or
-- {'missing'} where there is no store.
--
-- Worker IDs are compared as Lua's numbers, which are exact up to 2^53 and keep
-- their order beyond: what is returned may be too much, and is never too little.
local time = redis.call('TIME')
local reply = {'loaded', time[1] .. '.' .. string.format('%06d', time[2])}
if ARGV[1] == ARGV[2] then
  local found = redis.call('HMGET', KEYS[1], 'created', ARGV[1])
  if not found[1] then
    return {'missing'}
  end
  if found[2] then
    reply[3], reply[4] = ARGV[1], found[2]
  end
  return reply
end
local first, last, created = tonumber(ARGV[1]), tonumber(ARGV[2]), false
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local worker = tonumber(all[i])
  if all[i] == 'created' then
    created = true
  elseif not worker or worker >= first and worker <= last then
    reply[#reply + 1] = all[i]
    reply[#reply + 1] = all[i + 1]
  end
end
if not created then
  return {'missing'}
end
return reply
