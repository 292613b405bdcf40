-- Takes dead bits back, once: a repeat after a lost reply must not take back a mark that came in between.
-- KEYS: meta, done, dead, a key of this call
-- ARGV: how long the call is remembered in ms, positions…
local total = redis.call('HGET', KEYS[1], 'total')
if not total or redis.call('EXISTS', KEYS[2], KEYS[3]) < 2 then
  return {'closed'}
end
if redis.call('SET', KEYS[4], 1, 'NX', 'PX', ARGV[1]) then
  for i = 2, #ARGV do
    local position = tonumber(ARGV[i])
    if position >= 0 and position < tonumber(total) then
      redis.call('SETBIT', KEYS[3], ARGV[i], 0)
    end
  end
end
return {'ok'}
