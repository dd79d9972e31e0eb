-- Reading. A look is bounded: find says where it has stopped.

local LOOK = 1000      -- jobs of a status that one call looks at
local RUNNING = 50000  -- running jobs that one call sorts

-- below returns the seq of at most LOOK jobs of a sorted set below before, the highest first, and
-- the last of them if there may be more.
local function below(c, set, before)
  local found = redis.call('ZREVRANGEBYSCORE', c.base .. set, '(' .. before, '-inf', 'LIMIT', 0, LOOK)
  return found, #found == LOOK and tonumber(found[LOOK]) or nil
end

-- runningBelow returns the seq of running jobs below before.
local function runningBelow(c, before)
  local found, top, left = {}, tonumber(before) or math.huge, RUNNING
  for _, queue in ipairs(redis.call('ZRANGE', c.base .. 'leased', 0, -1)) do
    local members = left > 0 and redis.call('ZRANGE', leaseKey(c, queue), 0, left - 1) or {}
    left = left - #members
    for _, m in ipairs(members) do
      local seq = splitLease(m)
      if tonumber(seq) < top then found[#found + 1] = seq end
    end
  end
  return found
end

-- setsOf returns the sorted sets in which jobs of that status are, or of any.
local function setsOf(status)
  if isLive[status] then return { 'live' } end
  if status ~= '' then return { 'in:' .. status } end
  return { 'live', 'in:completed', 'in:dead', 'in:cancelled' }
end

-- candidates returns the seq of jobs below before, the highest first, and the seq down to which it
-- has looked at all of them, or 0.
local function candidates(c, status, before)
  local all, floor = {}, 0
  if status == 'running' then
    all = runningBelow(c, before)
  else
    for _, set in ipairs(setsOf(status)) do
      local found, last = below(c, set, before)
      floor = math.max(floor, last or 0)
      for _, seq in ipairs(found) do all[#all + 1] = seq end
    end
  end
  table.sort(all, function(a, b) return tonumber(a) > tonumber(b) end)
  return all, floor
end

local function isBetween(at, from, to)
  if from == '' and to == '' then return true end
  if not at then return false end
  return (from == '' or at >= tonumber(from)) and (to == '' or at < tonumber(to))
end

-- isChosen compares queue, kind, group and key; "" chooses any.
local function isChosen(r, queue, kind, group, key)
  return (queue == '' or r.queue == queue) and (kind == '' or r.kind == kind)
    and (group == '' or r.group == group) and (key == '' or r.key == key)
end

-- matches compares with the arguments of find, from the third on.
local function matches(c, r, f)
  return isChosen(r, f[3], f[4], f[5], f[6]) and (f[7] == '' or r.status == f[7])
    and (r.attempt or 0) >= tonumber(f[8])
    and (f[9] ~= '1' or r.lease < c.now)
    and (f[10] == '0' or c.now - (r.started or c.now) >= tonumber(f[10]))
    and isBetween(r.created, f[11], f[12]) and isBetween(r.finished, f[13], f[14])
end

-- find answers with the seq of matching jobs, the newest first, and the seq down to which it has
-- looked, or 0 for all. Arguments: before (or +inf), how many, queue, kind, group, key, status,
-- least attempts, 1 for expired, running for, created from and to, finished from and to.
local function find(keys, args)
  local c = open(keys)
  local found, limit = {}, tonumber(args[2])
  local all, floor = candidates(c, args[7], args[1])
  for _, seq in ipairs(all) do
    if tonumber(seq) < floor then break end
    local r = load(c, seq)
    if r and matches(c, r, args) then
      found[#found + 1] = seq
      if #found == limit then return { found, seq } end
    end
  end
  return { found, int(floor) }
end

-- read answers with jobs and their failures, and leaves out those that there are not. Arguments: 1
-- with payloads and headers, and the seq of each.
local function read(keys, args)
  local c = open(keys)
  local rows = {}
  for i = 2, #args do
    local r = load(c, args[i])
    if r then
      local p = args[1] == '1' and redis.call('HMGET', c.base .. 'j:' .. args[i], 'p', 'h') or {}
      rows[#rows + 1] = { row(r, p[1], p[2]), failuresOf(c, args[i]) }
    end
  end
  return rows
end

-- oldestDue returns when the oldest due job of a kind became due, or nil: the first of each
-- priority. It looks at so many priorities.
local function oldestDue(key, most)
  local oldest, from = nil, '-'
  for _ = 1, most do
    local m = redis.call('ZRANGEBYLEX', key, from, '+', 'LIMIT', 0, 1)[1]
    if not m then break end
    local priority, due = struct.unpack('>I4I8', m)
    oldest = math.min(oldest or due, due)
    from = '[' .. struct.pack('>I4', priority + 1)
  end
  return oldest
end

-- oldestInLanes returns when the oldest job of the first lanes of a queue became due, or infinity.
local function oldestInLanes(c, queue)
  local oldest, left = math.huge, LOOK
  for _, kind in ipairs(redis.call('SMEMBERS', c.base .. 'turns:' .. queue)) do
    local groups = left > 0 and redis.call('ZRANGE', lanesKey(c, queue, kind), 0, left - 1) or {}
    left = left - #groups
    for _, group in ipairs(groups) do
      oldest = math.min(oldest, oldestDue(laneKey(c, queue, group, kind), 2) or math.huge)
    end
  end
  return oldest
end

-- waitsSince returns when the oldest due job of a queue became due, or nil.
local function waitsSince(c, queue)
  local next = redis.call('ZRANGEBYSCORE', c.base .. 'delayed:' .. queue, '-inf', c.now, 'WITHSCORES', 'LIMIT', 0, 1)
  local oldest = tonumber(next[2]) or math.huge
  local rules = rulesOf(c, queue)
  if rules and rules.lanes then oldest = math.min(oldest, oldestInLanes(c, queue)) end
  for _, kind in ipairs(redis.call('SMEMBERS', c.base .. 'kinds:' .. queue)) do
    oldest = math.min(oldest, oldestDue(dueKey(c, queue, kind), 100) or math.huge)
  end
  for _, kind in ipairs(redis.call('SMEMBERS', c.base .. 'firsts:' .. queue)) do
    for _, group in ipairs(redis.call('ZRANGE', readyKey(c, queue, kind), 0, LOOK - 1)) do
      local r = firstOf(c, queue .. '\0' .. group)
      if r then oldest = math.min(oldest, dueAt(r)) end
    end
  end
  return oldest
end

-- backlogs answers with the queues that have due jobs, and for how long the oldest has waited.
local function backlogs(keys)
  local c = open(keys)
  local answer = {}
  for _, id in ipairs(redis.call('HKEYS', c.base .. 'count')) do
    local queue = string.match(id, '^(.*)%zpending$')
    local since = queue and waitsSince(c, queue) or math.huge
    if since <= c.now then answer[#answer + 1] = { queue, c.now - since } end
  end
  return answer
end

redis.register_function {
  function_name = 'errand_find_VERSION', callback = find, flags = { 'no-writes' },
}
redis.register_function {
  function_name = 'errand_read_VERSION', callback = read, flags = { 'no-writes' },
}
redis.register_function {
  function_name = 'errand_backlogs_VERSION', callback = backlogs, flags = { 'no-writes' },
}
