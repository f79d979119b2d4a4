-- Returns {'read', the server's time, member, member, ...}: the members of the sorted set
-- KEYS[1] from ARGV[1] to ARGV[2].
--
-- If there is a KEYS[2], it writes this key: WAIT waits for what its connection has written,
-- and so for everything that was written before.
if KEYS[2] then
  redis.call('SET', KEYS[2], '')
end
local time = redis.call('TIME')
local reply = {'read', time[1] .. string.format('%06d', time[2])}
for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2])) do
  reply[#reply + 1] = member
end
return reply
