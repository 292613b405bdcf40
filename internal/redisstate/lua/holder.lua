-- Tells who holds a corpus's lease now.
-- KEYS: lease
local time = redis.call('TIME')
local lease = redis.call('HMGET', KEYS[1], 'holder', 'until')
if tonumber(lease[2] or 0) <= time[1] * 1000 + math.floor(time[2] / 1000) then
  return {'ok', ''}
end
return {'ok', lease[1] or ''}
