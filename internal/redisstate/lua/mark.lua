-- Sets bits of a barrier and returns the counts after that. Nothing is set if any mark is wrong.
-- KEYS: meta, done, dead, the build's levels
-- ARGV: digest, ttl in ms, the highest position, then for each mark:
--       position, done | dead, calls, reused, input tokens, output tokens
local meta = redis.call('HMGET', KEYS[1], 'digest', 'total')
if not meta[1] or redis.call('EXISTS', KEYS[2], KEYS[3]) < 2 then
  return {'closed'}
end
if meta[1] ~= ARGV[1] then
  return {'digest', meta[1]}
end
if tonumber(ARGV[3]) >= tonumber(meta[2]) then
  return {'beyond', meta[2]}
end

local usage = {'calls', 'reused', 'input', 'output'}
local sum = {0, 0, 0, 0}
for i = 4, #ARGV, 6 do
  if ARGV[i + 1] == 'done' then
    -- The old bit tells whether this is the first Done of the position: only that one's usage counts.
    if redis.call('SETBIT', KEYS[2], ARGV[i], 1) == 0 then
      redis.call('SETBIT', KEYS[3], ARGV[i], 0)
      for k = 1, 4 do
        sum[k] = sum[k] + tonumber(ARGV[i + 1 + k])
      end
    end
  elseif redis.call('GETBIT', KEYS[2], ARGV[i]) == 0 then
    redis.call('SETBIT', KEYS[3], ARGV[i], 1)
  end
end
for k = 1, 4 do
  if sum[k] ~= 0 then
    redis.call('HINCRBY', KEYS[1], usage[k], string.format('%.0f', sum[k]))
  end
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) * 0.9 then
  for _, key in ipairs(KEYS) do
    redis.call('PEXPIRE', key, ARGV[2])
  end
end

local now = redis.call('HMGET', KEYS[1], 'total', 'calls', 'reused', 'input', 'output')
return {'ok', redis.call('BITCOUNT', KEYS[2]), redis.call('BITCOUNT', KEYS[3]), now[1], now[2], now[3], now[4], now[5]}
