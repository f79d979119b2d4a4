-- Makes the store KEYS[1], where it is not there, and notes when.
local time = redis.call('TIME')
return redis.call('HSETNX', KEYS[1], 'created', time[1] .. '.' .. string.format('%06d', time[2]))
