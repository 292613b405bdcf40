-- Corrects the estimate of a call that has ended, and notes that the endpoint asked for patience. Once: a call that
-- was given back before isn't there any more.
-- KEYS: bucket, the call
-- ARGV: for requests, input and output tokens the time that one takes to refill in us (0: no limit);
--       what comes back of the three, below 0 if the call took more than was thought, '' for all that was taken;
--       ok | throttled | other; how long the endpoint asks to wait in us, 0 if it doesn't say; the least pause in us,
--       which doubles with each 429 in a row, and the longest; how long a bucket lives in ms
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local call = redis.call('HMGET', KEYS[2], 'at', 'input', 'output')
local dimension = {'requests', 'input', 'output'}
if call[1] then
  redis.call('DEL', KEYS[2])
  local all = {1, call[2], call[3]}
  for i = 1, 3 do
    local per = tonumber(ARGV[i])
    local back = ARGV[3 + i]
    if back == '' then
      back = all[i]
    end
    local paid = redis.call('HGET', KEYS[1], dimension[i])
    if per > 0 and paid and tonumber(back) ~= 0 then
      -- What a bucket is owed counts from now, as in take.
      if tonumber(back) < 0 then
        paid = math.max(tonumber(paid), now)
      end
      redis.call('HSET', KEYS[1], dimension[i], string.format('%.0f', paid - per * back))
    end
  end
end

if ARGV[7] == 'other' then
  return {'ok'}
end
local bucket = redis.call('HMGET', KEYS[1], 'not_before', 'throttles', 'throttled_at')
local barred, throttles, cut = tonumber(bucket[1] or 0), tonumber(bucket[2] or 0), tonumber(bucket[3] or 0)
-- Of many calls that were under way at once and came back with the same 429, one is news.
local news = call[1] and tonumber(call[1]) > cut
if ARGV[7] == 'ok' then
  if news and throttles > 0 then
    redis.call('HSET', KEYS[1], 'throttles', 0)
  end
  return {'ok'}
end
local pause = tonumber(ARGV[8])
if news then
  -- Whatever the endpoint says: one that always says "now" is not to be trusted.
  pause = math.max(pause, math.min(ARGV[9] * 2 ^ math.min(throttles, 20), tonumber(ARGV[10])))
  redis.call('HSET', KEYS[1], 'throttles', throttles + 1, 'throttled_at', string.format('%.0f', now))
end
if now + pause > barred then
  barred = now + pause
  redis.call('HSET', KEYS[1], 'not_before', string.format('%.0f', barred))
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  local life = math.max(barred - now, 0) / 1000 + ARGV[11]
  if redis.call('PTTL', KEYS[1]) < life then
    redis.call('PEXPIRE', KEYS[1], string.format('%.0f', life))
  end
end
return {'ok'}
