-- The places of a job. unlink takes a job out of all that its state puts it in, link puts it there.
-- Between the two the state may change.

local BAD = 100 -- jobs that cannot be read, of which one call reports

local function count(c, r, n)
  local id = r.queue .. '\0' .. r.status
  c.counts[id] = (c.counts[id] or 0) + n
end

local function keyOf(c, r)
  return c.base .. 'k:' .. r.queue .. '\0' .. r.key
end

-- holderOf returns the seq of the live job that has a key in a queue, or nil. One that cannot be
-- read has no key.
local function holderOf(c, queue, key)
  local seq = redis.call('GET', keyOf(c, { queue = queue, key = key }))
  return seq and load(c, seq) and seq
end

local function dueKey(c, queue, kind)
  return c.base .. 'due:' .. queue .. '\0' .. kind
end

-- addDue makes a member one of those that are due.
local function addDue(c, queue, kind, m)
  redis.call('ZADD', dueKey(c, queue, kind), 0, m)
  local id = queue .. '\0' .. kind
  if not c.kinds[id] then
    c.kinds[id] = true
    redis.call('SADD', c.base .. 'kinds:' .. queue, kind)
  end
end

-- lanesKey and laneKey are those of turns.lua.
local function lanesKey(c, queue, kind)
  return c.base .. 'lanes:' .. queue .. '\0' .. kind
end

local function laneKey(c, queue, group, kind)
  return c.base .. 'lane:' .. queue .. '\0' .. group .. '\0' .. kind
end

local function linkPending(c, r)
  c.woken[r.queue] = true
  if r.ordered then return end -- its line tells when it is due
  if dueAt(r) <= c.now then
    addDue(c, r.queue, r.kind, member(r))
  else
    redis.call('ZADD', c.base .. 'delayed:' .. r.queue, dueAt(r), delayedMember(r))
  end
end

local function unlinkPending(c, r)
  if r.ordered then return end
  local m = member(r)
  if redis.call('ZREM', dueKey(c, r.queue, r.kind), m) == 1
    or redis.call('ZREM', c.base .. 'delayed:' .. r.queue, delayedMember(r)) == 1 then
    return
  end
  if c.hasRules then redis.call('ZREM', laneKey(c, r.queue, r.group or '', r.kind), m) end
end

local function leaseKey(c, queue)
  return c.base .. 'lease:' .. queue
end

local function runKey(c, queue, group)
  return c.base .. 'run:' .. queue .. '\0' .. group
end

-- leaseMember returns the member of a running job. It tells the group of a job whose hash is lost.
local function leaseMember(r)
  return r.group and r.seq .. '\0' .. r.group or r.seq
end

-- splitLease returns the seq and the group, or nil, of a member of lease.
local function splitLease(m)
  local sep = string.find(m, '\0', 1, true)
  if not sep then return m end
  return string.sub(m, 1, sep - 1), string.sub(m, sep + 1)
end

local function keepLease(c, r)
  redis.call('ZADD', leaseKey(c, r.queue), r.lease, leaseMember(r))
end

local function linkRunning(c, r)
  keepLease(c, r)
  if r.group then redis.call('SADD', runKey(c, r.queue, r.group), r.seq) end
  if not c.leased[r.queue] then
    c.leased[r.queue] = true
    redis.call('ZADD', c.base .. 'leased', 0, r.queue)
  end
end

-- unlinkRunning wakes the workers of a queue with rules: a limit has room again.
local function unlinkRunning(c, r)
  redis.call('ZREM', leaseKey(c, r.queue), leaseMember(r))
  if r.group then redis.call('SREM', runKey(c, r.queue, r.group), r.seq) end
  if rulesOf(c, r.queue) then c.woken[r.queue] = true end
end

-- touchLine notes that the line of an ordered job has to be looked at.
local function touchLine(c, queue, group)
  c.lines[queue .. '\0' .. group] = { queue, group }
end

local function linkLine(c, r)
  local id = r.queue .. '\0' .. r.group
  redis.call('ZADD', c.base .. 'line:' .. id, r.seq, r.seq)
  if r.status == 'running' then redis.call('SET', c.base .. 'busy:' .. id, r.seq) end
  touchLine(c, r.queue, r.group)
end

local function unlinkLine(c, r)
  local id = r.queue .. '\0' .. r.group
  redis.call('ZREM', c.base .. 'line:' .. id, r.seq)
  if r.status == 'running' then redis.call('DEL', c.base .. 'busy:' .. id) end
  touchLine(c, r.queue, r.group)
end

local function link(c, r)
  count(c, r, 1)
  if not isLive[r.status] then
    redis.call('ZADD', c.base .. 'in:' .. r.status, r.seq, r.seq)
    redis.call('ZADD', c.base .. 'end:' .. r.status, r.updated, r.seq)
    return
  end
  redis.call('ZADD', c.base .. 'live', r.seq, r.seq)
  if r.key then redis.call('SET', keyOf(c, r), r.seq) end
  if r.ordered then linkLine(c, r) end
  if r.status == 'pending' then linkPending(c, r) end
  if r.status == 'running' then linkRunning(c, r) end
end

local function unlink(c, r)
  count(c, r, -1)
  if not isLive[r.status] then
    redis.call('ZREM', c.base .. 'in:' .. r.status, r.seq)
    redis.call('ZREM', c.base .. 'end:' .. r.status, r.seq)
    return
  end
  redis.call('ZREM', c.base .. 'live', r.seq)
  if r.key then redis.call('DEL', keyOf(c, r)) end
  if r.ordered then unlinkLine(c, r) end
  if r.status == 'pending' then unlinkPending(c, r) end
  if r.status == 'running' then unlinkRunning(c, r) end
end

-- remove deletes a job, with all that belongs to it.
local function remove(c, r)
  unlink(c, r)
  redis.call('UNLINK', c.base .. 'j:' .. r.seq)
end

-- forget removes the places of a job whose hash is lost or cannot be read: the master that had it
-- died while the slot moved, or another program has written there. One such job must not stop the
-- others. Its hash stays, for people to look at, and reclaim reports it.
local function forget(c, seq)
  redis.call('ZADD', c.base .. 'bad', 'NX', 0, seq)
  for _, set in ipairs { 'live', 'in:completed', 'end:completed', 'in:dead', 'end:dead',
    'in:cancelled', 'end:cancelled' } do
    redis.call('ZREM', c.base .. set, seq)
  end
end

-- forgetPending does so for a due member.
local function forgetPending(c, queue, seq)
  count(c, { queue = queue, status = 'pending' }, -1)
  forget(c, seq)
end

-- forgetLease does so for a member of lease. A limit has room again.
local function forgetLease(c, queue, m)
  local seq, group = splitLease(m)
  redis.call('ZREM', leaseKey(c, queue), m)
  count(c, { queue = queue, status = 'running' }, -1)
  if rulesOf(c, queue) then c.woken[queue] = true end
  forget(c, seq)
  if not group then return end
  redis.call('SREM', runKey(c, queue, group), seq)
  local busy = c.base .. 'busy:' .. queue .. '\0' .. group
  if redis.call('GET', busy) == seq then
    redis.call('DEL', busy)
    touchLine(c, queue, group)
  end
end

-- reportBad returns jobs that forget has met, each with 1 if its key is still there: such a job is
-- reported again after so many microseconds, until people delete its key.
local function reportBad(c, again)
  local all = {}
  for _, seq in ipairs(redis.call('ZRANGEBYSCORE', c.base .. 'bad', '-inf', c.now, 'LIMIT', 0, BAD)) do
    local isThere = redis.call('EXISTS', c.base .. 'j:' .. seq)
    if isThere == 1 then
      redis.call('ZADD', c.base .. 'bad', c.now + again, seq)
    else
      redis.call('ZREM', c.base .. 'bad', seq)
    end
    all[#all + 1] = { seq, isThere }
  end
  return all
end
