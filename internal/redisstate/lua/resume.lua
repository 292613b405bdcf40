-- Raises what a build has spent to what is known from elsewhere. It never lowers it: calls may have been settled since
-- that was read.
-- KEYS: account
-- ARGV: tokens, cost, how long the account lives in ms
local account = redis.call('HMGET', KEYS[1], 'tokens', 'cost')
if tonumber(account[1] or 0) < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'tokens', ARGV[1])
end
if tonumber(account[2] or 0) < tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[1], 'cost', ARGV[2])
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {'ok'}
