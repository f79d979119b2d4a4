-- Returns {'read', the server's time, member, member, ...}: the members of the sorted set
-- KEYS[1] from ARGV[1] to ARGV[2].
--
-- With ARGV[3] it adds and removes a member: WAIT waits for the last write of its connection, and
-- so for all earlier writes.
if ARGV[3] then
  redis.call('ZADD', KEYS[1], 0, ARGV[3])
  redis.call('ZREM', KEYS[1], ARGV[3])
end
local time = redis.call('TIME')
local reply = {'read', time[1] .. string.format('%06d', time[2])}
for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2])) do
  reply[#reply + 1] = member
end
return reply
