-- pruneStatus deletes jobs that ended with a status so long ago, at most STEP. It returns how many.
local function pruneStatus(c, status, retention)
  local old = redis.call('ZRANGEBYSCORE', c.base .. 'end:' .. status, '-inf', c.now - retention, 'LIMIT', 0, STEP)
  for _, seq in ipairs(old) do
    local r = load(c, seq)
    if r then remove(c, r) else forget(c, seq) end
  end
  return #old
end

-- pruneLeased forgets the queues of which no job runs.
local function pruneLeased(c)
  for _, queue in ipairs(redis.call('ZRANGE', c.base .. 'leased', 0, -1)) do
    if redis.call('EXISTS', leaseKey(c, queue)) == 0 then redis.call('ZREM', c.base .. 'leased', queue) end
  end
end

-- prune deletes ended jobs after their retention, and forgets sources, workers and statistics.
-- Arguments: the retention of completed jobs, that of others, for how long workers have been
-- silent, and for how long statistics are kept, in microseconds. It answers with how many jobs it
-- has deleted, and with 1 if there is more to do.
local function prune(keys, args)
  local c = open(keys)
  local removed, more = 0, forgetSources(c) == STEP and 1 or 0
  for status, retention in pairs { completed = args[1], dead = args[2], cancelled = args[2] } do
    local n = pruneStatus(c, status, tonumber(retention))
    removed = removed + n
    if n == STEP then more = 1 end
  end
  if pruneWorkers(c, tonumber(args[3])) == STEP or pruneStats(c, tonumber(args[4])) == STEP then more = 1 end
  pruneLeased(c)
  finish(c)
  return { removed, more }
end

redis.register_function {
  function_name = 'errand_prune_VERSION', callback = prune, flags = { 'allow-oom' },
}
