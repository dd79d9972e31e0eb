-- sleep registers a worker that sleeps on a queue, and answers with the microseconds until its next
-- job is due, or -1.
local function sleep(keys, args)
  local c = open(keys)
  redis.call('SET', c.base .. 'sleep:' .. args[1], 1, 'EX', SLEEP)
  local next = redis.call('ZRANGEBYSCORE', c.base .. 'delayed:' .. args[1], '(' .. int(c.now), '+inf',
    'WITHSCORES', 'LIMIT', 0, 1)
  return next[2] and tonumber(next[2]) - c.now or -1
end

redis.register_function {
  function_name = 'errand_sleep_VERSION', callback = sleep, flags = { 'allow-oom' },
}
