-- Extends a lease that is still the newest.
-- KEYS: lease
-- ARGV: holder, epoch, ttl in ms
local lease = redis.call('HMGET', KEYS[1], 'holder', 'epoch')
if lease[1] ~= ARGV[1] or lease[2] ~= ARGV[2] then
  return {'fenced', lease[1] or '', lease[2] or '0'}
end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'until', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3]))
return {'ok'}
