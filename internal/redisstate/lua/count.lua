-- Reads the counts of a barrier.
-- KEYS: meta, done, dead
-- ARGV: the digest that it must be open with, or '' for any
local now = redis.call('HMGET', KEYS[1], 'digest', 'total', 'calls', 'reused', 'input', 'output', 'refused', 'trimmed', 'cut', 'language')
if not now[1] or redis.call('EXISTS', KEYS[2], KEYS[3]) < 2 then
  return {'closed'}
end
if ARGV[1] ~= '' and ARGV[1] ~= now[1] then
  return {'digest', now[1]}
end
local out = {'ok', redis.call('BITCOUNT', KEYS[2]), redis.call('BITCOUNT', KEYS[3])}
for k = 2, 10 do
  out[2 + k] = now[k] or '0' -- a barrier of an earlier aerie lacks some
end
return out
