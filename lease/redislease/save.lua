-- Writes the record ARGV[4], of version ARGV[3], of worker ARGV[1] into the hash
-- KEYS[1] where the one in its place has version ARGV[2], or where there is none
-- and ARGV[2] is '0'. Returns {'saved', the server's time}, {'conflict', the
-- version in place}, {'unreadable'}, or {'missing'} where there is no store.
--
-- Versions are compared as texts: as numbers they would lose digits here.
local found = redis.call('HMGET', KEYS[1], 'created', ARGV[1])
if not found[1] then
  return {'missing'}
end
local version = '0'
if found[2] then
  version = string.match(found[2], '^(%d+) %d+%.%d+ {.*}$')
  if not version then
    return {'unreadable'}
  end
end
if version ~= ARGV[2] then
  return {'conflict', version}
end
local time = redis.call('TIME')
local now = time[1] .. '.' .. string.format('%06d', time[2])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3] .. ' ' .. now .. ' ' .. ARGV[4])
return {'saved', now}
