-- Taking due jobs of one queue, for a claim q.

local CHUNK = 100     -- members of a kind that are read at once
local PROMOTE = 5000  -- jobs that one claim makes due at most
local LINE = 5        -- a line takes as long to make due as so many jobs
local LINES = 1000    -- lines of a limited queue that one claim looks at

-- promoteEach makes delayed members due. It returns how many jobs take as long.
local function promoteEach(c, queue, members)
  local n = 0
  for _, m in ipairs(members) do
    if string.sub(m, 1, 1) == 'g' then
      local group = string.sub(m, 2)
      redis.call('DEL', c.base .. 'at:' .. queue .. '\0' .. group)
      touchLine(c, queue, group)
      n = n + LINE
    else
      addDue(c, queue, dueMember(m))
      n = n + 1
    end
  end
  return n
end

-- promote makes jobs due whose time has come. It returns true if there may be more.
local function promote(c, queue)
  local delayed, left = c.base .. 'delayed:' .. queue, PROMOTE
  repeat
    local members = redis.call('ZRANGEBYSCORE', delayed, '-inf', c.now, 'LIMIT', 0, STEP)
    if #members == 0 then return false end
    redis.call('ZREM', delayed, unpack(members))
    left = left - promoteEach(c, queue, members)
  until left <= 0
  return true
end

-- kindsOf returns the kinds of a claim, or those of a set if it takes all.
local function kindsOf(c, kinds, set, queue)
  if #kinds > 0 then return kinds end
  return redis.call('SMEMBERS', c.base .. set .. queue)
end

-- advance moves a source to its next member, and decodes it.
local function advance(s)
  s.i = s.i + 1
  if s.i > #s.members and not s.last then
    s.members = redis.call('ZRANGE', s.key, s.from, s.from + s.chunk - 1)
    s.from, s.i, s.last = s.from + #s.members, 1, #s.members < s.chunk
  end
  s.member = s.members[s.i]
  if s.member then s.priority, s.due, s.seq = struct.unpack('>I4I8I8', s.member) end
end

-- newSource returns the members of a sorted set, which are read some at once.
local function newSource(key, kind, chunk)
  local s = { kind = kind, key = key, chunk = chunk, from = 0, i = 0, members = {}, taken = {} }
  advance(s)
  return s
end

local function isBefore(a, b)
  if a.priority ~= b.priority then return a.priority < b.priority end
  if a.due ~= b.due then return a.due < b.due end
  return a.seq < b.seq
end

-- sources returns the due members of each kind, of which n are wanted. It forgets kinds that have
-- none.
local function sources(c, queue, kinds, n)
  local all, chunk = {}, math.min(n + 1, CHUNK)
  for _, kind in ipairs(kindsOf(c, kinds, 'kinds:', queue)) do
    local s = newSource(dueKey(c, queue, kind), kind, chunk)
    if s.member then
      all[#all + 1] = s
    else
      redis.call('SREM', c.base .. 'kinds:' .. queue, kind)
    end
  end
  return all
end

local function firstSource(all)
  local best
  for _, s in ipairs(all) do
    if s.member and (not best or isBefore(s, best)) then best = s end
  end
  return best
end

-- fits reports whether a job of that many bytes fits in the claim, and ends the claim if not.
local function fits(q, size)
  if q.room < 0 then q.full = true end
  if q.full then return false end
  q.room = q.room - size
  if q.room < 0 and q.any then q.full = true end
  return not q.full
end

-- take gives a pending job to the claimer. It returns false if a rate has no tokens for the job, or
-- if the job does not fit.
local function take(c, q, seq)
  local f = fieldsOf(c, seq, 's', 'p', 'h')
  local r = f[1] and decode(f[1])
  if not r then
    forgetPending(c, q.queue, seq)
    return true
  end
  local group, cost = r.group or '', r.cost or 1
  if not allows(q.meter, group, cost) then return false end
  if not fits(q, (f[2] and #f[2] or 0) + (f[3] and #f[3] or 0)) then return false end
  spend(q.meter, group, cost)
  if not q.drawn then q.fence = drawFence(c, q.fence, q.isOwn) end
  q.drawn, q.any = true, true
  count(c, r, -1)
  r.seq, r.status, r.attempt, r.fence, r.worker = seq, 'running', (r.attempt or 0) + 1, q.fence, q.worker
  r.started, r.locked, r.updated, r.lease = c.now, c.now, c.now, c.now + q.lease
  count(c, r, 1)
  save(c, r)
  linkRunning(c, r)
  q.jobs[#q.jobs + 1] = claimed(r, f[2], f[3])
  return true
end

-- dropTaken removes what was claimed from the due members, some hundred at once.
local function dropTaken(s)
  for i = 1, #s.taken, STEP do
    redis.call('ZREM', s.key, unpack(s.taken, i, math.min(i + STEP - 1, #s.taken)))
  end
end

-- takeFirst claims up to n jobs of the sources in their order, and returns how many.
local function takeFirst(c, q, all, n)
  local before = #q.jobs
  while #q.jobs < before + n do
    local s = firstSource(all)
    if not s or not take(c, q, int(s.seq)) then break end
    s.taken[#s.taken + 1] = s.member
    advance(s)
  end
  for _, s in ipairs(all) do dropTaken(s) end
  return #q.jobs - before
end

local function claimPlain(c, q)
  takeFirst(c, q, sources(c, q.queue, q.kinds, q.limit), q.limit)
end

-- readyLines returns the groups whose turn it is, at most n, in the order of their turns.
local function readyLines(c, queue, kinds, n)
  local lines = {}
  for _, kind in ipairs(kindsOf(c, kinds, 'firsts:', queue)) do
    local found = redis.call('ZRANGE', readyKey(c, queue, kind), 0, n - 1, 'WITHSCORES')
    for i = 1, #found, 2 do
      lines[#lines + 1] = { group = found[i], turn = tonumber(found[i + 1]) }
    end
    if #found == 0 then redis.call('SREM', c.base .. 'firsts:' .. queue, kind) end
  end
  table.sort(lines, function(a, b) return a.turn < b.turn end)
  return lines
end

-- roomOf returns how many more jobs of a group may run.
local function roomOf(c, queue, group)
  local most = limitOf(c, queue, group)
  if most == math.huge or most == 0 then return most end
  return most - redis.call('SCARD', runKey(c, queue, group))
end

-- takeLine claims the first job of a line, if it may run. It returns false if the claim is full.
local function takeLine(c, q, group)
  local id = q.queue .. '\0' .. group
  local r = firstOf(c, id)
  if r and q.isLimited and not (roomOf(c, q.queue, group) > 0 and allows(q.meter, group, r.cost or 1)) then
    if q.isCut then -- the next claim looks at others
      local turn = redis.call('HINCRBY', c.base .. 'meta', 'turn', 1)
      redis.call('ZADD', readyKey(c, q.queue, r.kind), turn, group)
    end
    return true
  end
  if r then
    if not take(c, q, r.seq) then return false end
    redis.call('SET', c.base .. 'busy:' .. id, r.seq)
  end
  touchLine(c, q.queue, group)
  return true
end

local function claimOrdered(c, q)
  local n = q.limit - #q.jobs
  if n <= 0 or q.full then return end
  if q.isLimited then n = LINES end
  local lines = readyLines(c, q.queue, q.kinds, n)
  q.isCut = q.isLimited and #lines >= LINES
  q.more = q.more or q.isCut
  for i = 1, math.min(n, #lines) do
    if #q.jobs >= q.limit or not takeLine(c, q, lines[i].group) then return end
  end
end
