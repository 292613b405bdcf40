-- Takes a corpus's lease if nobody else holds it.
-- KEYS: lease
-- ARGV: holder, ttl in ms, floor of the epoch
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lease = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
local left = tonumber(lease[3] or 0) - now
if lease[1] and lease[1] ~= '' and lease[1] ~= ARGV[1] and left > 0 then
  return {'held', lease[1], left}
end
-- A failover may have lost the newest epoch; the floor comes from a place that didn't.
local epoch = string.format('%.0f', math.max(tonumber(lease[2] or 0), tonumber(ARGV[3])) + 1)
redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'epoch', epoch, 'until', string.format('%.0f', now + ARGV[2]))
return {'ok', epoch}
