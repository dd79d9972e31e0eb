-- Ordered jobs. The live ordered jobs of a group are its line, in the order of their seq:
--   line:QUEUE 0 GROUP    sorted set: seq
--   busy:QUEUE 0 GROUP    the seq of the one that runs
--   at:QUEUE 0 GROUP      where the line waits: "r" and the kind of its first job, or "d"
--   ready:QUEUE 0 KIND    sorted set by turn: groups whose first job is due, of that kind
--   firsts:QUEUE          set: kinds that ready has or had
-- A line whose first job is not due waits in delayed:QUEUE.

local function readyKey(c, queue, kind)
  return c.base .. 'ready:' .. queue .. '\0' .. kind
end

-- leaveLines takes a line out of the place where it waits.
local function leaveLines(c, queue, group, was)
  if was == 'd' then
    redis.call('ZREM', c.base .. 'delayed:' .. queue, 'g' .. group)
  elseif was then
    redis.call('ZREM', readyKey(c, queue, string.sub(was, 2)), group)
  end
  redis.call('DEL', c.base .. 'at:' .. queue .. '\0' .. group)
end

-- firstOf returns the first job of a line if it may run when it is due, else nil.
local function firstOf(c, id)
  if redis.call('EXISTS', c.base .. 'busy:' .. id) == 1 then return nil end
  local seq = redis.call('ZRANGE', c.base .. 'line:' .. id, 0, 0)[1]
  local r = seq and load(c, seq)
  if r and r.status == 'pending' then return r end
end

-- forgetFirst takes jobs that cannot be read from the head of a line.
local function forgetFirst(c, id)
  local line = c.base .. 'line:' .. id
  local seq = redis.call('ZRANGE', line, 0, 0)[1]
  while seq and not load(c, seq) do
    redis.call('ZREM', line, seq)
    forget(c, seq)
    seq = redis.call('ZRANGE', line, 0, 0)[1]
  end
end

-- placeLine puts a line where its first job belongs. A line that is ready keeps its turn.
local function placeLine(c, queue, group)
  local id = queue .. '\0' .. group
  forgetFirst(c, id)
  local was = redis.call('GET', c.base .. 'at:' .. id)
  local r = firstOf(c, id)
  local is = r and (dueAt(r) <= c.now and 'r' .. r.kind or 'd')
  if was and was ~= is then leaveLines(c, queue, group, was) end
  if not r or is == was and is ~= 'd' then return end
  if is == 'd' then
    redis.call('ZADD', c.base .. 'delayed:' .. queue, dueAt(r), 'g' .. group)
  else
    redis.call('ZADD', readyKey(c, queue, r.kind), redis.call('HINCRBY', c.base .. 'meta', 'turn', 1), group)
    redis.call('SADD', c.base .. 'firsts:' .. queue, r.kind)
  end
  redis.call('SET', c.base .. 'at:' .. id, is)
  c.woken[queue] = true
end

local function placeLines(c)
  for _, l in pairs(c.lines) do placeLine(c, l[1], l[2]) end
  c.lines = {}
end

-- wake tells the workers that sleep on a queue.
local function wake(c, queue)
  if redis.call('DEL', c.base .. 'sleep:' .. queue) == 1 then
    redis.call('SPUBLISH', c.base .. 'wake:' .. queue, '')
  end
end

-- finish ends a call that has written.
local function finish(c)
  placeLines(c)
  for id, n in pairs(c.counts) do
    if n ~= 0 and redis.call('HINCRBY', c.base .. 'count', id, n) == 0 then
      redis.call('HDEL', c.base .. 'count', id)
    end
  end
  for queue in pairs(c.woken) do wake(c, queue) end
end
