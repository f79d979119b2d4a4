-- Puts an entry into the sorted set KEYS[1], or removes it. A member of the set is
-- <key> <version> <time> <value>; its time is in microseconds since 1970. All scores are 0,
-- so members are in the order of their keys.
--
-- ARGV: the key, the version before ('' if there is no entry), the new version ('' to remove
-- the entry), the value. Returns {'stored', the server's time}, {'conflict', the stored
-- version}, or {'unreadable'}. Nothing is written unless it returns 'stored'.
local key, old, new, value = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local members = redis.call('ZRANGEBYLEX', KEYS[1], '[' .. key .. ' ', '(' .. key .. '!')
local version, at, is = '', '', ''
if members[1] then
  version, at, is = string.match(members[1], '^%S+ (%S+) (%d+) (.*)$')
  if not version or members[2] then
    return {'unreadable'}
  end
end
-- The client sends a request again if it lost the connection. Copies of a cloned machine may draw
-- the same version, but for another value.
if new ~= '' and version == new and is == value then
  return {'stored', at}
end
if version ~= old or version == new then
  return {'conflict', version}
end
local time = redis.call('TIME')
local now = time[1] .. string.format('%06d', time[2])
if new ~= '' then -- first, since it may fail, and Redis does not undo what a script has written
  redis.call('ZADD', KEYS[1], 0, key .. ' ' .. new .. ' ' .. now .. ' ' .. value)
end
if members[1] then
  redis.call('ZREM', KEYS[1], members[1])
end
return {'stored', now}
