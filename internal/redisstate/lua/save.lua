-- Stores a build's state under the newest lease.
-- KEYS: lease, build, history
-- ARGV: holder, epoch, sequence of the call in digits of fixed width, state, name of the build, what is kept of it
local lease = redis.call('HMGET', KEYS[1], 'holder', 'epoch')
if lease[1] ~= ARGV[1] or lease[2] ~= ARGV[2] then
  return {'fenced', lease[1] or '', lease[2] or '0'}
end
-- A call whose reply was given up on may still arrive, after a later one of the same holder.
local saved = redis.call('HMGET', KEYS[2], 'epoch', 'sequence')
if saved[1] ~= ARGV[2] or saved[2] < ARGV[3] then
  redis.call('HSET', KEYS[2], 'epoch', ARGV[2], 'sequence', ARGV[3], 'state', ARGV[4])
  redis.call('HSET', KEYS[3], ARGV[5], ARGV[6])
end
return {'ok'}
