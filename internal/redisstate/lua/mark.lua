-- Sets bits of a barrier and returns the counts after that. Nothing is set if any mark is wrong.
-- KEYS: meta, done, dead, the build's levels, and if any mark is spent a key of the call's own: one whose reply was lost is made again,
--       and what was spent counts once
-- ARGV: digest, ttl in ms, the highest position, for how many ms the call's own key is kept, then for each mark:
--       position, done | dead | spent, and the eight counts of its usage
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

local usage = {'calls', 'reused', 'input', 'output', 'refused', 'trimmed', 'cut', 'language'}
local sum = {}
for k = 1, #usage do
  sum[k] = 0
end
local function add(i)
  for k = 1, #usage do
    sum[k] = sum[k] + tonumber(ARGV[i + 1 + k])
  end
end
local fresh = not KEYS[5] or redis.call('SET', KEYS[5], '1', 'NX', 'PX', ARGV[4])
for i = 5, #ARGV, 2 + #usage do
  if ARGV[i + 1] == 'done' then
    -- The old bit tells whether this is the first Done of the position: only that one's usage counts.
    if redis.call('SETBIT', KEYS[2], ARGV[i], 1) == 0 then
      redis.call('SETBIT', KEYS[3], ARGV[i], 0)
      add(i)
    end
  elseif ARGV[i + 1] == 'spent' then
    if fresh then
      add(i)
    end
  elseif redis.call('GETBIT', KEYS[2], ARGV[i]) == 0 then
    redis.call('SETBIT', KEYS[3], ARGV[i], 1)
  end
end
for k = 1, #usage do
  if sum[k] ~= 0 then
    redis.call('HINCRBY', KEYS[1], usage[k], string.format('%.0f', sum[k]))
  end
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) * 0.9 then
  for k = 1, 4 do
    redis.call('PEXPIRE', KEYS[k], ARGV[2])
  end
end

local now = redis.call('HMGET', KEYS[1], 'total', unpack(usage))
local out = {'ok', redis.call('BITCOUNT', KEYS[2]), redis.call('BITCOUNT', KEYS[3])}
for k = 1, 1 + #usage do
  out[3 + k] = now[k] or '0' -- a barrier of an earlier aerie lacks some
end
return out
