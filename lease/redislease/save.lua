-- Writes the record ARGV[4], of version ARGV[3], of worker ARGV[1] into the hash
-- KEYS[1] if the one in its place has version ARGV[2], or if there is none
-- and ARGV[2] is '0'. Returns {'saved', the server's time}, {'conflict', the
-- version in place}, {'unreadable'}, {'wiped', worker}, or {'missing'} if there is no
-- store. Nothing is written unless it returns 'saved'.
--
-- KEYS[2] is the set of the worker IDs that were used.
--
-- KEYS[3], if given, is the worker's history: a sorted set in which each member is
-- <from> <id> <to> <holding>, with texts of 30, 32 and 30 characters before the last. It
-- gets the member of ARGV[5] (from and id), ARGV[6] (to) and ARGV[7] (holding) in
-- place of another one with that id. Members whose <to> is before ARGV[8] go.
--
-- Versions are compared as texts: as numbers they would lose digits here.
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

-- A script that fails is not undone. So what may fail comes before, and what does the
-- least harm by itself.
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
