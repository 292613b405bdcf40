-- Reads one bitmap of a barrier.
-- KEYS: meta, done, dead
-- ARGV: done | dead
if redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3]) < 3 then
  return {'closed'}
end
return {'ok', redis.call('GET', ARGV[1] == 'done' and KEYS[2] or KEYS[3])}
