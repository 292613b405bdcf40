-- Replaces a corpus's record if it is still as it was read, once: a repeat after a lost reply must not be taken for
-- another writer, or the change would be made twice.
-- KEYS: records, a key of this call
-- ARGV: name, old record or '', new record, how long the call is remembered in ms
if redis.call('EXISTS', KEYS[2]) == 1 then
  return {'ok'}
end
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then
  return {'changed'}
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('SET', KEYS[2], 1, 'PX', ARGV[4])
return {'ok'}
