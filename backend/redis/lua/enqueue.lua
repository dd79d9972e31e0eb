-- enqueue writes jobs, each of 14 arguments: queue, kind, payload, headers, priority, due time (8
-- bytes, or "" for now plus the delay), delay, max attempts, key, group, ordered, replace, longest
-- delay, cost. It answers with seq and what became of each: 0 new, 1 duplicate, 2 replaced.
--
-- It has no flag allow-oom: the server refuses it at maxmemory, and all else goes on.

local FIELDS = 14

local function newState(c, args, i)
  local due, delay = args[i + 5], tonumber(args[i + 6])
  local r = {
    status = 'pending', queue = args[i], kind = args[i + 1], created = c.now, updated = c.now,
    due = due ~= '' and due or micros(c.now + delay), max = tonumber(args[i + 7]),
    key = set(args[i + 8]), group = set(args[i + 9]), ordered = args[i + 10] == '1' or nil,
  }
  if args[i + 4] ~= '0' then r.priority = tonumber(args[i + 4]) end
  if args[i + 13] ~= '0' then r.cost = tonumber(args[i + 13]) end
  return r
end

-- placed gives the new state r the place of the pending or held job old.
local function placed(c, r, old, args, i)
  local longest = tonumber(args[i + 12])
  r.seq, r.status = old.seq, old.status
  if not old.attempt then r.created = old.created end
  if longest > 0 and r.created + longest < dueAt(r) then r.due = micros(r.created + longest) end
  if args[i + 5] == '' and dueAt(r) <= c.now then -- it is not put off, so it keeps its place
    r.due = dueAt(old) < c.now and old.due or micros(c.now)
  end
  r.redriven, r.redrives = old.redriven, old.redrives
end

-- write stores a job with its payload and headers.
local function write(c, r, payload, headers)
  if headers ~= '' then
    save(c, r, 'p', payload, 'h', headers)
  else
    save(c, r, 'p', payload)
  end
  link(c, r)
end

-- takeKey makes room for a job whose key a live job has. It returns nil if the new job is to be
-- written beside it, or else the answer.
local function takeKey(c, r, seq, args, i)
  local old = load(c, seq)
  if not old then return nil end -- see forget
  if args[i + 11] ~= '1' then return { seq, 1 } end
  unlink(c, old)
  if old.status == 'running' then
    old.key = nil
    save(c, old)
    link(c, old)
    return nil
  end
  placed(c, r, old, args, i)
  redis.call('HDEL', c.base .. 'j:' .. seq, 'h')
  write(c, r, args[i + 2], args[i + 3])
  return { seq, 2 }
end

local function enqueueOne(c, args, i)
  local r = newState(c, args, i)
  if r.key then
    local seq = redis.call('GET', keyOf(c, r))
    local answer = seq and takeKey(c, r, seq, args, i)
    if answer then return answer end
  end
  c.seq = c.seq + 1
  r.seq = int(c.seq)
  write(c, r, args[i + 2], args[i + 3])
  return { r.seq, 0 }
end

-- enqueueEach calls f for each job of args, which has so many arguments, the first from that index
-- on. It returns the answers.
local function enqueueEach(keys, args, from, n, f)
  local c = open(keys)
  local last = tonumber(redis.call('HGET', c.base .. 'meta', 'seq') or 0)
  c.seq = math.max(last, c.now - EPOCH)
  local answer = {}
  for i = from, #args, n do
    answer[#answer + 1] = f(c, args, i)
  end
  redis.call('HSET', c.base .. 'meta', 'seq', int(c.seq))
  finish(c)
  return answer
end

local function enqueue(keys, args)
  return enqueueEach(keys, args, 1, FIELDS, enqueueOne)
end

redis.register_function { function_name = 'errand_enqueue_VERSION', callback = enqueue }
