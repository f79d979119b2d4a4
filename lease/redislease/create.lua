-- Returns '' if the store in the hash KEYS[1] is there, and has a record for each
-- worker ID in the set KEYS[2]. If they are not and ARGV[1] is 'repair', it makes the
-- store whole: it notes when the store was created, and removes the worker IDs without
-- a record from the set. If ARGV[1] is something else, it returns what is missing.
local lost = {}
for _, worker in ipairs(redis.call('SMEMBERS', KEYS[2])) do
  if redis.call('HEXISTS', KEYS[1], worker) == 0 then
    lost[#lost + 1] = worker
  end
end
local created = redis.call('HEXISTS', KEYS[1], 'created') == 1
if (not created or #lost > 0) and ARGV[1] ~= 'repair' then
  table.sort(lost)
  return (created and 'lost ' or 'not created; lost ') .. table.concat(lost, ' ')
end
for _, worker in ipairs(lost) do
  redis.call('SREM', KEYS[2], worker)
end
if not created then
  local time = redis.call('TIME')
  redis.call('HSET', KEYS[1], 'created', time[1] .. '.' .. string.format('%06d', time[2]))
end
return ''
