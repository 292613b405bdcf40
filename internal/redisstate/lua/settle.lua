-- Replaces a reservation by what the call has cost. Only the first settlement of a call counts.
-- KEYS: account, reserved, the settlement of the call
-- ARGV: id, tokens, cost, how long the settlement is remembered and the account lives in ms
if redis.call('EXISTS', KEYS[3]) == 1 then
  return {'ok'}
end
redis.call('HDEL', KEYS[2], ARGV[1])
if tonumber(ARGV[2]) > 0 or tonumber(ARGV[3]) > 0 then
  redis.call('SET', KEYS[3], 1, 'PX', ARGV[4])
  redis.call('HINCRBY', KEYS[1], 'tokens', ARGV[2])
  redis.call('HINCRBY', KEYS[1], 'cost', ARGV[3])
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
end
return {'ok'}
