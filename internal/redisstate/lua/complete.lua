-- Says that a roster of documents is whole, unless ids were removed or it was lost since the mark.
-- KEYS: roster
-- ARGV: mark
if redis.call('HGET', KEYS[1], 'mark') ~= ARGV[1] then
  return {'moved'}
end
redis.call('HSET', KEYS[1], 'whole', '1')
return {'ok'}
