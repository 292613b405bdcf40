-- Starts a level's barrier with no bit set, unless it is open with the same digest and total.
-- KEYS: meta, done, dead, the build's levels
-- ARGV: level, digest, total, ttl in ms
local meta = redis.call('HMGET', KEYS[1], 'digest', 'total')
if meta[1] ~= ARGV[2] or meta[2] ~= ARGV[3] or redis.call('EXISTS', KEYS[2], KEYS[3]) < 2 then
  redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
  redis.call('HSET', KEYS[1], 'digest', ARGV[2], 'total', ARGV[3], 'calls', 0, 'reused', 0, 'input', 0, 'output', 0)
  -- Both bitmaps get their full length now. So one that is gone later is seen to be gone, and doesn't read as
  -- one in which nothing was ever marked.
  local last = math.max(tonumber(ARGV[3]) - 1, 0)
  redis.call('SETBIT', KEYS[2], last, 0)
  redis.call('SETBIT', KEYS[3], last, 0)
end
redis.call('SADD', KEYS[4], ARGV[1])
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ARGV[4])
end
return {'ok'}
