-- Sets aside the most that a call may cost, if the budget allows.
-- KEYS: account, reserved, the settlement of the call
-- ARGV: id, tokens, cost, most tokens (0: no bound), most cost (0: no bound), life of a reservation and of an account
--       in ms. Bounds that the account has of its own win.
if redis.call('EXISTS', KEYS[3]) == 1 or redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then
  return {'ok'}
end
local account = redis.call('HMGET', KEYS[1], 'tokens', 'cost', 'max_tokens', 'max_cost')
local spent = {tonumber(account[1] or 0), tonumber(account[2] or 0)}
local want = {tonumber(ARGV[2]), tonumber(ARGV[3])}
local most = {tonumber(account[3] or ARGV[4]), tonumber(account[4] or ARGV[5])}
if most[1] == 0 and most[2] == 0 then
  return {'ok'}
end
local function over(held)
  for i = 1, 2 do
    if most[i] > 0 and spent[i] + held[i] + want[i] > most[i] then
      return true
    end
  end
  return false
end
if over({0, 0}) then
  return {'over', string.format('%.0f', spent[1]), string.format('%.0f', spent[2]),
    string.format('%.0f', most[1]), string.format('%.0f', most[2])}
end

-- What is reserved is summed up each time and kept nowhere, so that no sum can drift from its parts.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local held = {0, 0}
local all = redis.call('HGETALL', KEYS[2])
for i = 1, #all, 2 do
  local tokens, cost, ends = string.match(all[i + 1], '^(%d+) (%d+) (%d+)$')
  if tonumber(ends) <= now then
    redis.call('HDEL', KEYS[2], all[i])
  else
    held[1] = held[1] + tonumber(tokens)
    held[2] = held[2] + tonumber(cost)
  end
end
if over(held) then
  return {'wait'}
end
redis.call('HSET', KEYS[2], ARGV[1], string.format('%s %s %.0f', ARGV[2], ARGV[3], now + ARGV[6]))
redis.call('PEXPIRE', KEYS[2], ARGV[7])
return {'ok'}
