-- Tells whether a lease is still the newest, and its time not over.
-- KEYS: lease
-- ARGV: holder, epoch
local lease = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if lease[1] ~= ARGV[1] or lease[2] ~= ARGV[2] or tonumber(lease[3] or 0) <= now then
  return {'fenced', lease[1] or '', lease[2] or '0'}
end
return {'ok'}
