-- Gives a lease up that is still the newest. The epoch stays, so that the next one is greater.
-- KEYS: lease
-- ARGV: holder, epoch
local lease = redis.call('HMGET', KEYS[1], 'holder', 'epoch')
if lease[1] == ARGV[1] and lease[2] == ARGV[2] then
  redis.call('HSET', KEYS[1], 'holder', '', 'until', 0)
end
return {'ok'}
