-- Takes up to ARGV[1] IDs off the key KEYS[1], none of them before position
-- ARGV[2], for a client whose clock reads ARGV[3]. Times are in milliseconds
-- since 1970. A position is one of the IDs of all time, 1,024 in a millisecond:
-- 51 bits in all, so that Lua's numbers, which have 53, are exact.
--
-- The key has the run_id of the server that wrote it, and the millisecond and
-- sequence of the next ID. Where it is missing, or was written by another server
-- process (which may have issued more than it passed on), IDs may have been issued
-- up to AHEAD after the clock that they came from: go on behind that.
--
-- Returns
--   {'issued', first position, how many},
--   {'wait', the time of the next ID, the server's time}: too far ahead of it,
--   {'outside', time}: the layout does not have that time,
--   {'behind', the server's time}: too far behind the client's to start anew, or
--   {'unreadable'}.
local AHEAD, LAST = 1000, 2^41 - 1
local function text(number) return string.format('%.0f', number) end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local count, client = tonumber(ARGV[1]), tonumber(ARGV[3])
local function save(position)
  local sequence = position % 1024
  redis.call('SET', KEYS[1], run .. ' ' .. text((position - sequence) / 1024) .. ' ' .. text(sequence))
end

if now < 0 or now > LAST then
  return {'outside', text(now)}
end
local position, writer = now * 1024, nil
local state = redis.call('GET', KEYS[1])
if state then
  local tick, sequence
  writer, tick, sequence = string.match(state, '^(%w+) (%d+) (%d+)$')
  if not writer or tonumber(tick) > LAST + 1 or tonumber(sequence) > 1023 then
    return {'unreadable'}
  end
  position = math.max(position, tick * 1024 + sequence)
end
if writer ~= run then
  if client - now > AHEAD then
    return {'behind', text(now)}
  end
  position = math.max(position, (math.max(now, client) + AHEAD + 1) * 1024)
  save(position)
end

position = math.max(position, tonumber(ARGV[2]))
local tick = math.floor(position / 1024)
if tick > LAST then
  return {'outside', text(tick)}
end
local room = (math.min(now + AHEAD, LAST) + 1) * 1024 - position
if room <= 0 then
  return {'wait', text(tick), text(now)}
end
count = math.min(count, room)
save(position + count)
return {'issued', text(position), text(count)}
