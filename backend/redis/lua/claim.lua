-- claim claims due jobs of one queue. Arguments: queue, worker, lease, limit, bytes, the fence of
-- the claim so far or 0, 1 if that was drawn in this partition, 1 if the claim has jobs already,
-- how many jobs of the limit would wait for a slot, the time until when the claimer waits or 0, and
-- the kinds, or none for all. It answers with the fence, 1 if the claim is full, and the jobs. If
-- the queue has rules, or more jobs have become due than it makes so, there follow 1 if rules bound
-- its jobs, 1 if there may be jobs that it has not looked at, and in how many microseconds a rate
-- has tokens, or -1.

-- claimWithRules claims from a queue that has rules. Some have no limits, or none any more.
local function claimWithRules(c, q, rules)
  if rules.lanes and not rules.turns then
    q.more = emptyLanes(c, q.queue)
    if not q.more then
      rules.lanes = nil
      saveRules(c, q.queue, rules)
    end
  end
  if rules.limit then
    claimLimited(c, q, rules)
  else
    claimPlain(c, q)
    claimOrdered(c, q)
  end
end

local function claim(keys, args)
  local c = open(keys)
  local q = {
    queue = args[1], worker = args[2], lease = tonumber(args[3]), limit = tonumber(args[4]),
    room = tonumber(args[5]), fence = tonumber(args[6]), isOwn = args[7] == '1',
    any = args[8] == '1', ahead = tonumber(args[9]), kinds = argsFrom(args, 11), jobs = {},
  }
  local ends = tonumber(args[10])
  if ends > 0 and c.now > ends then return { q.fence, 0, {} } end
  local rules = rulesOf(c, q.queue)
  local isLate = promote(c, q.queue)
  placeLines(c)
  c.woken = {} -- the claimer is awake
  if rules then
    claimWithRules(c, q, rules)
  else
    claimPlain(c, q)
    claimOrdered(c, q)
  end
  finish(c)
  if not rules and not isLate then return { q.fence, q.full and 1 or 0, q.jobs } end
  local wait = q.meter and math.ceil(q.meter.wait / 1000) or -1
  local isBounded, hasMore = rules and rules.bounded, q.more or isLate
  return { q.fence, q.full and 1 or 0, q.jobs, isBounded and 1 or 0, hasMore and 1 or 0, wait }
end

-- hasAny reports whether one of the kinds has a member in its sorted set. Without kinds it asks
-- those of a set.
local function hasAny(c, kinds, set, keyOfKind, queue)
  for _, kind in ipairs(kindsOf(c, kinds, set, queue)) do
    if redis.call('EXISTS', keyOfKind(c, queue, kind)) == 1 then return true end
  end
  return false
end

-- look answers with the time if a claim may find jobs, and else with 0. Arguments: queue, and the
-- kinds, or none for all.
local function look(keys, args)
  local c, queue, kinds = open(keys), args[1], argsFrom(args, 2)
  local rules = rulesOf(c, queue)
  if rules and rules.paused then return 0 end
  local isDue = redis.call('ZCOUNT', c.base .. 'delayed:' .. queue, '-inf', c.now) > 0
    or hasAny(c, kinds, 'kinds:', dueKey, queue) or hasAny(c, kinds, 'firsts:', readyKey, queue)
    or rules and rules.lanes and hasAny(c, kinds, 'turns:', lanesKey, queue)
  return isDue and c.now or 0
end

redis.register_function {
  function_name = 'errand_look_VERSION', callback = look, flags = { 'no-writes' },
}
redis.register_function {
  function_name = 'errand_claim_VERSION', callback = claim, flags = { 'allow-oom' },
}
