-- Takes up to ARGV[1] IDs from the key KEYS[1], none of them before position ARGV[2], for a client
-- whose clock reads ARGV[3]. Times are in milliseconds since 1970. A position is the number of
-- earlier IDs since 1970, 1,024 in a millisecond. It has 51 bits, so Lua's numbers, which have 53,
-- are exact.
--
-- The key holds its writer, and the millisecond and sequence of the next ID. The writer is the
-- server's run_id, which a restart changes, and its master_replid, which a replica copies from its
-- master and changes when it becomes one. (The replid of a master also changes when its first
-- replica attaches, and after repl-backlog-ttl without one.) If the key is missing, or has another
-- writer, later writes may be lost, and IDs may have been issued up to AHEAD after the writer's
-- clock: continue after that.
--
-- The key is written last. If no IDs are issued, it stays unchanged, except to reserve a start.
--
-- Returns
--   {'issued', first position, count},
--   {'wait', the time of the next ID, the server's time}: the ID is too far ahead,
--   {'outside', time}: the layout does not have that time,
--   {'behind', the server's time}: too far behind the client's clock to continue without a key, or
--   {'unreadable'}.
local AHEAD, WAIT, LAST = 1000, 1000, 2^41 - 1 -- WAIT: a client's longest wait
local function text(number) return string.format('%.0f', number) end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local server = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') .. ':' ..
  string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
local count, client = tonumber(ARGV[1]), tonumber(ARGV[3])
local function save(position)
  local sequence = position % 1024
  redis.call('SET', KEYS[1], server .. ' ' .. text((position - sequence) / 1024) .. ' ' .. text(sequence))
end

if now < 0 or now > LAST then
  return {'outside', text(now)}
end
local position, writer = now * 1024, nil
local state = redis.call('GET', KEYS[1])
if state then
  local tick, sequence
  writer, tick, sequence = string.match(state, '^([%w:]+) (%d+) (%d+)$')
  if not writer or tonumber(tick) > LAST + 1 or tonumber(sequence) > 1023 then
    return {'unreadable'}
  end
  position = math.max(position, tick * 1024 + sequence)
end
local lost = writer ~= server
if lost then
  if client - now >= WAIT then -- the client would wait for longer than WAIT
    return {'behind', text(now)}
  end
  position = math.max(position, (math.max(now, client) + AHEAD + 1) * 1024)
end
local start = position

position = math.max(position, tonumber(ARGV[2]))
local tick = math.floor(position / 1024)
if tick > LAST then
  return {'outside', text(tick)}
end
local room = (math.min(now + AHEAD, LAST) + 1) * 1024 - position
if room <= 0 then
  if lost and tick - AHEAD - now <= WAIT then
    save(start) -- for the client's next call, after its wait
  end
  return {'wait', text(tick), text(now)}
end
count = math.min(count, room)
save(position + count)
return {'issued', text(position), text(count)}
