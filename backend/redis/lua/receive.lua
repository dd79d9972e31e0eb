-- receive writes jobs of another backend whose sources it does not know yet, and remembers those.
-- The sorted set "got" has the sources, by when they are forgotten. Arguments: for how long; and of
-- each job its source, when it was created or "", its attempts, its last error, and the arguments
-- of enqueue. It answers with seq and what became of each, as enqueue does, or with 0 and 3 for a
-- job that it has left out.
--
-- Like enqueue it has no flag allow-oom.

local PAST = 4 -- arguments of a job before those of enqueue

-- keepPast writes what a job was before it was received.
local function keepPast(c, seq, created, attempt, text)
  local r = load(c, seq)
  r.created = tonumber(created) or r.created
  if attempt ~= '0' then r.attempt = tonumber(attempt) end
  r.error = set(text)
  save(c, r)
end

local function receiveOne(c, args, i)
  local isNew = redis.call('ZADD', c.base .. 'got', 'NX', int(c.now + tonumber(args[1])), args[i])
  if isNew == 0 then return { '0', 3 } end
  local answer = enqueueOne(c, args, i + PAST)
  if answer[2] == 0 then keepPast(c, answer[1], args[i + 1], args[i + 2], args[i + 3]) end
  return answer
end

local function receive(keys, args)
  return enqueueEach(keys, args, 2, PAST + FIELDS, receiveOne)
end

-- forgetSources forgets sources whose time is over, at most STEP. It returns how many.
local function forgetSources(c)
  local old = redis.call('ZRANGEBYSCORE', c.base .. 'got', '-inf', c.now, 'LIMIT', 0, STEP)
  if #old > 0 then redis.call('ZREM', c.base .. 'got', unpack(old)) end
  return #old
end

redis.register_function { function_name = 'errand_receive_VERSION', callback = receive }
