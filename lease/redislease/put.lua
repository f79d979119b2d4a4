-- Stores an entry in the sorted set KEYS[1], or removes it. A member of the set has the form
-- <key> <version> <time> <value>; the time is in microseconds since 1970. All scores are 0, so
-- members are sorted by key.
--
-- ARGV: the key, the old version ('' if there is no entry), the new version ('' to remove the
-- entry), the value. Returns {'stored', the server's time}, or {'conflict', the stored version}
-- without having written. If a key has several members, or one of another form, its version is
-- unreadable- and the SHA-1 of its members.
local key, old, new, value = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local members = redis.call('ZRANGEBYLEX', KEYS[1], '[' .. key, '(' .. key .. '!') -- '!' follows the space
local version, at, is = '', '', ''
if members[1] then
  version, at, is = string.match(members[1], '^%S+ (%S+) (%d+) (.*)$')
  if not version or #at > 18 or members[2] or string.sub(old, 1, 11) == 'unreadable-' then
    version = 'unreadable-' .. redis.sha1hex(table.concat(members, '\n'))
  end
end
-- The client repeats a request if it lost the connection. Copies of a cloned machine may draw the
-- same version, but for another value.
if new ~= '' and version == new and is == value then
  return {'stored', at}
end
if version ~= old or version == new then
  return {'conflict', version}
end
local time = redis.call('TIME')
local now = time[1] .. string.format('%06d', time[2])
if new ~= '' then -- before ZREM, because it may fail, and Redis does not roll scripts back
  redis.call('ZADD', KEYS[1], 0, key .. ' ' .. new .. ' ' .. now .. ' ' .. value)
end
for _, member in ipairs(members) do
  redis.call('ZREM', KEYS[1], member)
end
return {'stored', now}
