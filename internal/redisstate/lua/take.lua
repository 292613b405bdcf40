-- Takes what a call needs from every limit of an endpoint at once, or nothing.
-- KEYS: bucket, the call
-- ARGV: for requests, input and output tokens the time that one takes to refill in us (0: no limit);
--       input and output tokens of the call; the burst in us; how long the call is remembered in ms
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if redis.call('EXISTS', KEYS[2]) == 1 then
  return {'ok'}
end
local dimension = {'requests', 'input', 'output'}
local need = {1, tonumber(ARGV[4]), tonumber(ARGV[5])}
local bucket = redis.call('HMGET', KEYS[1], 'requests', 'input', 'output', 'not_before')

local at, why = tonumber(bucket[4] or 0), 'throttled'
local debt = at
for i = 1, 3 do
  if tonumber(ARGV[i]) > 0 then
    local ready = tonumber(bucket[i] or 0) - ARGV[6]
    if ready > at then
      at, why = ready, 'limit'
    end
  end
end
if at > now then
  return {'wait', math.ceil(at - now), why}
end

for i = 1, 3 do
  local per = tonumber(ARGV[i])
  if per > 0 then
    local paid = math.max(tonumber(bucket[i] or 0), now) + per * need[i]
    redis.call('HSET', KEYS[1], dimension[i], string.format('%.0f', paid))
    debt = math.max(debt, paid)
  end
end
redis.call('HSET', KEYS[2], 'at', string.format('%.0f', now), 'input', ARGV[4], 'output', ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[7])
-- A bucket without debt says no more than no bucket.
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(debt - now, 0) / 1000 + ARGV[7]))
return {'ok'}
