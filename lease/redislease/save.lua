-- Writes the record ARGV[4], of version ARGV[3], of worker ARGV[1] into the hash
-- KEYS[1] if the stored record has version ARGV[2], or if no record is stored and
-- ARGV[2] is '0'. Returns {'saved', the server's time}, {'conflict', the
-- stored version}, {'unreadable'}, {'wiped', worker}, or {'missing'} if there is no
-- store. Nothing is written unless it returns 'saved'.
--
-- KEYS[2] is the set of the worker IDs that were used.
--
-- KEYS[3], if given, is the worker's history: a sorted set in which each member is
-- <from> <id> <to> <holding>, with texts of 30, 32 and 30 characters before the last. The
-- member made of ARGV[5] (from and id), ARGV[6] (to) and ARGV[7] (holding) is added,
-- and replaces a member with the same from and id. Members whose <to> is before
-- ARGV[8] are removed.
--
-- Versions are compared as texts: Lua's numbers would lose digits.
local worker = ARGV[1]
local found = redis.call('HMGET', KEYS[1], 'created', worker)
if not found[1] then
  return {'missing'}
end
local version = '0'
if not found[2] and redis.call('SISMEMBER', KEYS[2], worker) == 1 then
  return {'wiped', worker}
end
if found[2] then
  version = string.match(found[2], '^(%d+) %d+%.%d+ {.*}$')
  if not version then
    return {'unreadable'}
  end
end
if version ~= ARGV[2] then
  return {'conflict', version}
end
local same, begunBefore = {}, {}
local id, ended, forget = ARGV[5], ARGV[6], ARGV[8]
if KEYS[3] then
  same = redis.call('ZRANGEBYLEX', KEYS[3], '[' .. id .. ' ', '(' .. id .. '!')
  begunBefore = redis.call('ZRANGEBYLEX', KEYS[3], '-', '(' .. forget)
end

-- If a script fails, Redis does not undo it. So the write that may fail comes first; it
-- does no harm if it stays alone.
local member
if KEYS[3] and ended >= forget then
  member = id .. ' ' .. ended .. ' ' .. ARGV[7]
  redis.call('ZADD', KEYS[3], 0, member)
end
local time = redis.call('TIME')
local now = time[1] .. '.' .. string.format('%06d', time[2])
redis.call('HSET', KEYS[1], worker, ARGV[3] .. ' ' .. now .. ' ' .. ARGV[4])
if version == '0' then
  redis.call('SADD', KEYS[2], worker)
end
for _, other in ipairs(same) do
  if other ~= member then
    redis.call('ZREM', KEYS[3], other)
  end
end
for _, other in ipairs(begunBefore) do
  if string.sub(other, 65, 94) < forget then
    redis.call('ZREM', KEYS[3], other)
  end
end
return {'saved', now}
