-- What workers report about themselves. It is in partition 0:
--   workers               hash: name -> report: info, and when it was started, has claimed, drains
--   seen                  sorted set: names of workers, by the time of their last report

local REPORT = 6 -- arguments of a report

-- ago returns the time that was so long ago, or 0 for the age 0.
local function ago(c, age)
  return age ~= '0' and c.now - tonumber(age) or 0
end

local function forgetWorker(c, name)
  redis.call('HDEL', c.base .. 'workers', name)
  redis.call('ZREM', c.base .. 'seen', name)
end

local function noteReport(c, args, i)
  if args[i + 1] == '1' then return forgetWorker(c, args[i]) end
  local report = { args[i + 2], c.now - tonumber(args[i + 3]), ago(c, args[i + 4]), ago(c, args[i + 5]) }
  redis.call('HSET', c.base .. 'workers', args[i], cmsgpack.pack(report))
  redis.call('ZADD', c.base .. 'seen', c.now, args[i])
end

-- report records what workers tell. Arguments: how many reports, and of each: name, 1 if the worker
-- has stopped, info, age, age of the last claim or 0, age of the order to stop or 0. Statistics
-- follow, each of 3 arguments: queue 0 kind, how long ago its minute began, numbers.
local function report(keys, args)
  local c, stats = open(keys), 2 + tonumber(args[1]) * REPORT
  for i = 2, stats - 1, REPORT do noteReport(c, args, i) end
  for i = stats, #args, 3 do addStats(c, args[i], args[i + 1], args[i + 2]) end
  return 0
end

-- pruneWorkers forgets at most STEP workers that have been silent for so long. It returns how many.
local function pruneWorkers(c, silent)
  local old = redis.call('ZRANGEBYSCORE', c.base .. 'seen', '-inf', c.now - silent, 'LIMIT', 0, STEP)
  for _, name in ipairs(old) do forgetWorker(c, name) end
  return #old
end

-- workers answers with the time, the cursor of the next page or 0, and the workers of a page, about
-- STEP. A worker may be on two pages. Argument: the cursor.
local function workers(keys, args)
  local c = open(keys)
  local page = redis.call('HSCAN', c.base .. 'workers', args[1], 'COUNT', STEP)
  local all, found = {}, page[2]
  for i = 1, #found, 2 do
    local info, started, claimed, draining = unpack(cmsgpack.unpack(found[i + 1]))
    local seen = tonumber(redis.call('ZSCORE', c.base .. 'seen', found[i])) or 0
    all[#all + 1] = { found[i], info, started, claimed, draining, seen }
  end
  return { c.now, page[1], all }
end

-- nextLeased returns the queue behind that one of which jobs run, or nil. The first one is behind
-- "".
local function nextLeased(c, queue)
  return redis.call('ZRANGEBYLEX', c.base .. 'leased', '(' .. queue, '+', 'LIMIT', 0, 1)[1]
end

-- runs answers with the time, the cursor of the next page or 0, and the running jobs of a page,
-- about STEP. A job may be on two pages, but none that runs all the time is left out. Arguments:
-- the cursor, and the names of workers, or none for all. A cursor has that of a scan, and its
-- queue.
local function runs(keys, args)
  local c, isWanted = open(keys), {}
  for i = 2, #args do isWanted[args[i]] = true end
  local at, queue = string.match(args[1], '^(%d+) ?(.*)$')
  if queue == '' then queue = nextLeased(c, '') end
  local all, seen = {}, 0
  while queue and seen < STEP do
    local page = redis.call('ZSCAN', leaseKey(c, queue), at, 'COUNT', STEP)
    local found = page[2]
    for i = 1, #found, 2 do
      local r = load(c, (splitLease(found[i])))
      if r and r.status == 'running' and (#args == 1 or isWanted[r.worker]) then
        all[#all + 1] = { r.worker, r.seq, r.queue, r.kind, r.attempt, r.started }
      end
    end
    at, seen = page[1], seen + 1 + #found / 2
    if at == '0' then queue = nextLeased(c, queue) end
  end
  return { c.now, queue and at .. ' ' .. queue or '0', all }
end

redis.register_function {
  function_name = 'errand_report_VERSION', callback = report, flags = { 'allow-oom' },
}
redis.register_function {
  function_name = 'errand_workers_VERSION', callback = workers, flags = { 'no-writes' },
}
redis.register_function {
  function_name = 'errand_runs_VERSION', callback = runs, flags = { 'no-writes' },
}
