-- What all functions of the library share. Each function works on one partition: its first key is
-- the partition's "meta", and all of its keys share a hash tag, so they are in one slot. c is a
-- call under way; finish ends it.
--
-- Keys of a partition, behind its tag:
--   meta                  hash: seq and fence that were drawn last, turn of the last line
--   j:SEQ                 hash, a job: s its state, p payload, h headers, f failures, o output,
--                         g progress, a when that was reported
--   k:QUEUE 0 KEY         the seq of the live job that has the key
--   live                  sorted set: seq of pending, running and held jobs
--   in:STATUS             the same of jobs that ended so;  end:STATUS  the same, by when they ended
--   due:QUEUE 0 KIND      sorted set, all scores 0: members of due jobs, in the order of claims
--   delayed:QUEUE         sorted set by due time: members of jobs, or groups of ordered jobs
--   kinds:QUEUE           set: kinds that due has or had
--   lease:QUEUE           sorted set: running jobs, by the end of the lease: SEQ, or SEQ 0 GROUP
--   leased                sorted set, all scores 0: queues that lease has or had
--   run:QUEUE 0 GROUP     set: seq of running jobs of a group
--   count                 hash: QUEUE 0 STATUS -> jobs
--   bad                   sorted set: seq of jobs that cannot be read, by when they are reported
--   sleep:QUEUE           there is a worker that sleeps
--   got                   sorted set: the sources of received jobs, by when they are forgotten
--   for ordered jobs: see lines.lua;  for rules: see rules.lua, rates.lua, turns.lua
--   for partition 0 only: see fleet.lua, stats.lua, schedule.lua
--
-- A state has these fields, and leaves out what is nil, 0, false or "":
--   status queue kind key group ordered priority due max cost attempt fence worker error
--   created updated started finished locked lease cancel redriven redrives
-- Times are in microseconds, but due is their 8 bytes in big-endian order: Lua's numbers are exact
-- up to 2^53 only, which is in the year 2255.

local EPOCH = 1735689600000000 -- seq counts microseconds since 2025
local SLEEP = 60               -- seconds that a registration holds
local STEP = 500               -- jobs that one call of a scan changes or looks at

local isLive = { pending = true, running = true, held = true }

-- int returns the digits of an integer. Lua's own conversion keeps 14 of them.
local function int(n)
  return string.format('%.0f', n)
end

-- set returns nil for an empty text: a state leaves it out.
local function set(text)
  if text ~= '' then return text end
end

-- argsFrom returns the arguments from that one on. Lua's own unpack takes some thousand at most.
local function argsFrom(args, first)
  local rest = {}
  for i = first, #args do rest[#rest + 1] = args[i] end
  return rest
end

-- checkSlot ends a call that comes while the slot moves to another node of a cluster: some keys are
-- here, and others there. There a command with a missing key is refused to a function; here one
-- with two keys of which one is missing. A call must not notice that when it has written half. The
-- client tries again when the slot has moved. The command also tells whether the partition has
-- rules, so that calls for queues without rules need no other one.
local function checkSlot(base)
  local answer = redis.pcall('EXISTS', base .. '-', base .. '+', base .. 'rules')
  if type(answer) == 'table' then error({ err = 'TRYAGAIN the partition moves to another node' }) end
  return answer == 1
end

-- open begins a call.
local function open(keys)
  local t, base = redis.call('TIME'), string.sub(keys[1], 1, -5)
  return {
    base = base, now = t[1] * 1000000 + t[2], hasRules = checkSlot(base),
    counts = {}, woken = {}, lines = {}, kinds = {}, leased = {}, rules = {}, groupRules = {},
  }
end

-- isRun reports whether a state has what a run gives it.
local function isRun(r)
  return r.worker and r.fence and r.attempt and r.started and r.locked and r.lease
end

-- typeOf has the type of each field of a state.
local typeOf = {
  status = 'string', queue = 'string', kind = 'string', key = 'string', group = 'string',
  due = 'string', worker = 'string', error = 'string', ordered = 'boolean', priority = 'number',
  max = 'number', cost = 'number', attempt = 'number', fence = 'number', created = 'number',
  updated = 'number', started = 'number', finished = 'number', locked = 'number',
  lease = 'number', cancel = 'number', redriven = 'number', redrives = 'number',
}

local isStatus = {
  pending = true, running = true, held = true, completed = true, dead = true, cancelled = true,
}

-- hasTypes reports whether the fields of a state have their types. A newer release may have more.
local function hasTypes(r)
  for name, value in next, r do
    if type(value) ~= typeOf[name] and typeOf[name] then return false end
  end
  return true
end

-- decode returns the state in a text, or nil if errand has not written it. It looks at the types of
-- all fields, and whether there are those that each state has.
local function decode(packed)
  local isRead, r = pcall(cmsgpack.unpack, packed)
  if isRead and type(r) == 'table' and hasTypes(r) and isStatus[r.status]
    and r.queue and r.kind and r.created and r.max and r.due and #r.due == 8
    and (r.group or not r.ordered) and (r.status ~= 'running' or isRun(r)) then
    return r
  end
end

-- checkType ends a call after an error other than that a key has another type than a hash.
local function checkType(failed)
  if string.sub(failed.err, 1, 9) ~= 'WRONGTYPE' then error(failed) end
end

-- fieldsOf returns fields of a job's hash, each false if there is none. A key of another type has
-- none.
local function fieldsOf(c, seq, ...)
  local found = redis.pcall('HMGET', c.base .. 'j:' .. seq, ...)
  if not found.err then return found end
  checkType(found)
  return {}
end

-- load returns the state of a job, or nil if there is none that can be read. See forget.
local function load(c, seq)
  local packed = redis.pcall('HGET', c.base .. 'j:' .. seq, 's')
  if not packed then return nil end
  if type(packed) == 'table' then return checkType(packed) end
  local r = decode(packed)
  if r then r.seq = seq end
  return r
end

-- save writes the state of a job, with further fields of its hash.
local function save(c, r, ...)
  local seq = r.seq
  r.seq = nil
  redis.call('HSET', c.base .. 'j:' .. seq, 's', cmsgpack.pack(r), ...)
  r.seq = seq
end

-- drawFence returns a fence above all that this partition has drawn: wanted, if it is high enough,
-- or else the time. If the same claim has drawn wanted here, it may be the last one. A failover
-- that has lost the last fences does not make them fall back.
local function drawFence(c, wanted, isOwn)
  local last = tonumber(redis.call('HGET', c.base .. 'meta', 'fence') or 0)
  if isOwn and wanted == last then return wanted end
  local fence = wanted > last and wanted or math.max(last + 1, c.now)
  redis.call('HSET', c.base .. 'meta', 'fence', int(fence))
  return fence
end

-- micros returns the 8 bytes of a time.
local function micros(n)
  return struct.pack('>I8', n)
end

-- dueAt returns the due time of a job in microseconds.
local function dueAt(r)
  return (struct.unpack('>I8', r.due))
end

-- place returns what sorts a pending job in the order of claims: priority, due time, seq.
local function place(r)
  return struct.pack('>I4', (r.priority or 0) + 2147483648) .. r.due .. micros(tonumber(r.seq))
end

-- member returns the place of a job with its group behind it.
local function member(r)
  return place(r) .. (r.group or '')
end

-- delayedMember returns the same for a job that is not due, with its kind.
local function delayedMember(r)
  local m = 'j' .. place(r) .. r.kind
  return r.group and m .. '\0' .. r.group or m
end

-- dueMember returns the kind of a delayed member, and the member that it becomes.
local function dueMember(m)
  local sep = string.find(m, '\0', 22, true)
  if not sep then return string.sub(m, 22), string.sub(m, 2, 21) end
  return string.sub(m, 22, sep - 1), string.sub(m, 2, 21) .. string.sub(m, sep + 1)
end

-- claimed returns a job for its claimer, who knows its queue, worker and fence.
local function claimed(r, payload, headers)
  return {
    r.seq, r.kind, r.due, r.priority or 0, r.max or 0, r.attempt or 0, r.created, r.key or false,
    r.group or false, r.ordered and 1 or 0, r.error or false, payload or false, headers or false,
  }
end

-- row returns all of a job. The payload and headers may be false.
local function row(r, payload, headers)
  local all = claimed(r, payload, headers)
  for _, v in ipairs {
    r.queue, r.status, r.worker or '', r.fence or 0, r.cost or 0, r.updated or 0, r.started or 0,
    r.finished or 0, r.locked or 0, r.lease or 0, r.cancel or 0, r.redriven or 0, r.redrives or 0,
  } do
    all[#all + 1] = v
  end
  return all
end
