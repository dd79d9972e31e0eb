-- claim claims due jobs of one queue. Arguments: queue, worker, lease, limit, bytes, the fence of
-- the claim so far or 0, 1 if that was drawn in this partition, 1 if the claim has jobs already, and
-- the kinds, or none for all. It answers with the fence, 1 if the claim is full, and the jobs.

local CHUNK = 100     -- members of a kind that are read at once
local PROMOTE = 10000 -- jobs that one claim makes due at most

-- promote makes jobs due whose time has come.
local function promote(c, queue)
  local delayed = c.base .. 'delayed:' .. queue
  for _ = 1, PROMOTE / 1000 do
    local members = redis.call('ZRANGEBYSCORE', delayed, '-inf', c.now, 'LIMIT', 0, 1000)
    if #members == 0 then return end
    redis.call('ZREM', delayed, unpack(members))
    for _, m in ipairs(members) do
      if string.sub(m, 1, 1) == 'g' then
        local group = string.sub(m, 2)
        redis.call('DEL', c.base .. 'at:' .. queue .. '\0' .. group)
        touchLine(c, queue, group)
      else
        addDue(c, queue, string.sub(m, 22), string.sub(m, 2, 21))
      end
    end
  end
end

-- advance moves a source to its next member, and decodes it.
local function advance(s)
  s.i = s.i + 1
  if s.i > #s.members and not s.last then
    s.members = redis.call('ZRANGE', s.key, s.from, s.from + CHUNK - 1)
    s.from, s.i, s.last = s.from + #s.members, 1, #s.members < CHUNK
  end
  s.member = s.members[s.i]
  if s.member then s.priority, s.due, s.seq = struct.unpack('>I4I8I8', s.member) end
end

local function isBefore(a, b)
  if a.priority ~= b.priority then return a.priority < b.priority end
  if a.due ~= b.due then return a.due < b.due end
  return a.seq < b.seq
end

-- sources returns the due members of each kind. It forgets kinds that have none.
local function sources(c, queue, kinds)
  local all = {}
  for _, kind in ipairs(#kinds > 0 and kinds or redis.call('SMEMBERS', c.base .. 'kinds:' .. queue)) do
    local s = { kind = kind, key = dueKey(c, queue, kind), from = 0, i = 0, members = {}, taken = {} }
    advance(s)
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

-- take gives a pending job to the claimer. It returns false if the job does not fit.
local function take(c, q, seq)
  local f = redis.call('HMGET', c.base .. 'j:' .. seq, 's', 'p', 'h')
  if not f[1] then return true end
  if not fits(q, #f[2] + (f[3] and #f[3] or 0)) then return false end
  local r = cmsgpack.unpack(f[1])
  if not q.drawn then q.fence = drawFence(c, q.fence, q.isOwn) end
  q.drawn, q.any = true, true
  count(c, r, -1)
  r.seq, r.status, r.attempt, r.fence, r.worker = seq, 'running', (r.attempt or 0) + 1, q.fence, q.worker
  r.started, r.locked, r.updated, r.lease = c.now, c.now, c.now, c.now + q.lease
  count(c, r, 1)
  save(c, r)
  redis.call('ZADD', c.base .. 'lease', r.lease, seq)
  q.jobs[#q.jobs + 1] = claimed(r, f[2], f[3])
  return true
end

-- dropTaken removes what was claimed from the due members, some hundred at once.
local function dropTaken(s)
  for i = 1, #s.taken, STEP do
    redis.call('ZREM', s.key, unpack(s.taken, i, math.min(i + STEP - 1, #s.taken)))
  end
end

local function claimPlain(c, q, kinds)
  local all = sources(c, q.queue, kinds)
  while #q.jobs < q.limit do
    local s = firstSource(all)
    if not s or not take(c, q, int(s.seq)) then break end
    s.taken[#s.taken + 1] = s.member
    advance(s)
  end
  for _, s in ipairs(all) do dropTaken(s) end
end

-- readyLines returns the groups whose turn it is, at most n, in the order of their turns.
local function readyLines(c, queue, kinds, n)
  local lines = {}
  for _, kind in ipairs(#kinds > 0 and kinds or redis.call('SMEMBERS', c.base .. 'firsts:' .. queue)) do
    local found = redis.call('ZRANGE', readyKey(c, queue, kind), 0, n - 1, 'WITHSCORES')
    for i = 1, #found, 2 do
      lines[#lines + 1] = { group = found[i], turn = tonumber(found[i + 1]) }
    end
    if #found == 0 then redis.call('SREM', c.base .. 'firsts:' .. queue, kind) end
  end
  table.sort(lines, function(a, b) return a.turn < b.turn end)
  return lines
end

local function claimOrdered(c, q, kinds)
  local n = q.limit - #q.jobs
  if n <= 0 or q.full then return end
  local lines = readyLines(c, q.queue, kinds, n)
  for i = 1, math.min(n, #lines) do
    local id = q.queue .. '\0' .. lines[i].group
    local r = firstOf(c, id)
    if r then
      if not take(c, q, r.seq) then return end
      redis.call('SET', c.base .. 'busy:' .. id, r.seq)
    end
    touchLine(c, q.queue, lines[i].group)
  end
end

local function claim(keys, args)
  local c = open(keys)
  local q = {
    queue = args[1], worker = args[2], lease = tonumber(args[3]), limit = tonumber(args[4]),
    room = tonumber(args[5]), fence = tonumber(args[6]), isOwn = args[7] == '1',
    any = args[8] == '1', jobs = {},
  }
  local kinds = { unpack(args, 9) }
  promote(c, q.queue)
  placeLines(c)
  c.woken = {} -- the claimer is awake
  claimPlain(c, q, kinds)
  claimOrdered(c, q, kinds)
  finish(c)
  return { q.fence, q.full and 1 or 0, q.jobs }
end

-- hasAny reports whether one of the kinds has a member in its sorted set. Without kinds it asks those
-- of a set.
local function hasAny(c, kinds, set, keyOfKind, queue)
  for _, kind in ipairs(#kinds > 0 and kinds or redis.call('SMEMBERS', c.base .. set .. queue)) do
    if redis.call('EXISTS', keyOfKind(c, queue, kind)) == 1 then return true end
  end
  return false
end

-- look answers with 1 if a claim may find jobs, and else with 0. Arguments: queue, and the kinds, or
-- none for all.
local function look(keys, args)
  local c, queue, kinds = open(keys), args[1], { unpack(args, 2) }
  local isDue = redis.call('ZCOUNT', c.base .. 'delayed:' .. queue, '-inf', c.now) > 0
    or hasAny(c, kinds, 'kinds:', dueKey, queue) or hasAny(c, kinds, 'firsts:', readyKey, queue)
  return isDue and 1 or 0
end

redis.register_function {
  function_name = 'errand_look_VERSION', callback = look, flags = { 'no-writes' },
}
redis.register_function {
  function_name = 'errand_claim_VERSION', callback = claim, flags = { 'allow-oom' },
}
