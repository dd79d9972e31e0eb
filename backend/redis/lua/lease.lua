-- isHeld reports whether a claim holds a job.
local function isHeld(r, fence, worker)
  return r and r.status == 'running' and r.fence == tonumber(fence) and r.worker == worker
end

-- extend makes leases last from now. Arguments: the lease, and seq, fence and worker of each job.
-- It answers for each: 0 extended, 1 lost, 2 extended, and asked to cancel.
local function extend(keys, args)
  local c = open(keys)
  local lease, answer = tonumber(args[1]), {}
  for i = 2, #args, 3 do
    local r = load(c, args[i])
    if isHeld(r, args[i + 1], args[i + 2]) then
      r.locked, r.lease = c.now, c.now + lease
      save(c, r)
      keepLease(c, r)
      answer[#answer + 1] = r.cancel and 2 or 0
    else
      answer[#answer + 1] = 1
    end
  end
  return answer
end

-- expire ends a run whose lease is over.
local function expire(c, r)
  unlink(c, r)
  r.error = 'errand: the lease of worker ' .. r.worker .. ' expired'
  addFailure(c, r, r.error, '')
  release(c, r)
  if r.cancel then
    r.error = CANCELLED
    ended(c, r, 'cancelled')
  elseif r.attempt >= r.max then
    withoutAttempts(c, r)
  else
    waiting(r)
  end
  save(c, r)
  link(c, r)
end

-- leaseEnd returns when the lease of a job ends. args has, from the fourth on, pairs of a time and
-- a span: leases that began then or before end that much later. See package clockwatch.
local function leaseEnd(r, args)
  local ends = r.lease or 0
  for i = 4, #args, 2 do
    if (r.locked or 0) <= tonumber(args[i]) then ends = ends + tonumber(args[i + 1]) end
  end
  return ends
end

-- reclaimFrom takes back at most n jobs of a queue, and adds them to jobs.
local function reclaimFrom(c, queue, n, args, jobs)
  local key, at = leaseKey(c, queue), tonumber(args[3])
  for _, m in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', args[3], 'LIMIT', 0, n)) do
    local r = load(c, (splitLease(m)))
    if not r then
      forgetLease(c, queue, m)
    elseif leaseEnd(r, args) <= at then
      expire(c, r)
      jobs[#jobs + 1] = row(r)
    end
  end
end

-- reclaim takes back jobs whose leases have expired. It answers with them, and with jobs that
-- cannot be read. Arguments: how many at most, when the latter are reported again, the time that
-- expired has answered, and those of leaseEnd.
local function reclaim(keys, args)
  local c = open(keys)
  local jobs, limit = {}, tonumber(args[1])
  for _, queue in ipairs(redis.call('ZRANGE', c.base .. 'leased', 0, -1)) do
    if #jobs >= limit then break end
    reclaimFrom(c, queue, limit - #jobs, args, jobs)
  end
  finish(c)
  return { jobs, reportBad(c, tonumber(args[2])) }
end

redis.register_function {
  function_name = 'errand_extend_VERSION', callback = extend, flags = { 'allow-oom' },
}
redis.register_function {
  function_name = 'errand_reclaim_VERSION', callback = reclaim, flags = { 'allow-oom' },
}

-- expired answers with how many leases have expired, and jobs that cannot be read are to be
-- reported, and with the time.
local function expired(keys)
  local c = open(keys)
  local n = redis.call('ZCOUNT', c.base .. 'bad', '-inf', c.now)
  for _, queue in ipairs(redis.call('ZRANGE', c.base .. 'leased', 0, -1)) do
    n = n + redis.call('ZCOUNT', leaseKey(c, queue), '-inf', c.now)
  end
  return { n, c.now }
end

redis.register_function {
  function_name = 'errand_expired_VERSION', callback = expired, flags = { 'no-writes' },
}
