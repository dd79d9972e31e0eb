-- The places of a job. unlink takes a job out of all that its state puts it in, link puts it there.
-- Between the two the state may change.

local function count(c, r, n)
  local id = r.queue .. '\0' .. r.status
  c.counts[id] = (c.counts[id] or 0) + n
end

local function keyOf(c, r)
  return c.base .. 'k:' .. r.queue .. '\0' .. r.key
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

local function linkPending(c, r)
  c.woken[r.queue] = true
  if r.ordered then return end -- its line tells when it is due
  if dueAt(r) <= c.now then
    addDue(c, r.queue, r.kind, member(r))
  else
    redis.call('ZADD', c.base .. 'delayed:' .. r.queue, dueAt(r), 'j' .. member(r) .. r.kind)
  end
end

local function unlinkPending(c, r)
  if r.ordered then return end
  local m = member(r)
  if redis.call('ZREM', dueKey(c, r.queue, r.kind), m) == 0 then
    redis.call('ZREM', c.base .. 'delayed:' .. r.queue, 'j' .. m .. r.kind)
  end
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
  if r.status == 'running' then redis.call('ZADD', c.base .. 'lease', r.lease, r.seq) end
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
  if r.status == 'running' then redis.call('ZREM', c.base .. 'lease', r.seq) end
end

-- remove deletes a job, with all that belongs to it.
local function remove(c, r)
  unlink(c, r)
  redis.call('UNLINK', c.base .. 'j:' .. r.seq)
end

-- forget removes the places of a job whose hash is lost: the master that had it died while the slot
-- moved. One such job must not stop the others.
local function forget(c, seq)
  for _, set in ipairs { 'live', 'lease', 'in:completed', 'end:completed', 'in:dead', 'end:dead',
    'in:cancelled', 'end:cancelled' } do
    redis.call('ZREM', c.base .. set, seq)
  end
end
