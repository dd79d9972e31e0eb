-- What people do to jobs. Each action returns true if it has changed the job. own are the arguments
-- that only this action has.

local actions = {}

function actions.cancel(c, r)
  if r.status == 'running' then
    r.cancel = c.now
    save(c, r)
    return true
  end
  unlink(c, r)
  r.cancel, r.updated = c.now, c.now
  ended(c, r, 'cancelled')
  save(c, r)
  link(c, r)
  return true
end

function actions.redrive(c, r)
  if r.key then
    local holder = holderOf(c, r.queue, r.key)
    if holder and holder ~= r.seq then return false end
  end
  unlink(c, r)
  waiting(r)
  r.attempt, r.error, r.cancel, r.due = nil, nil, nil, micros(c.now)
  r.updated, r.redriven, r.redrives = c.now, c.now, (r.redrives or 0) + 1
  save(c, r)
  link(c, r)
  return true
end

function actions.delete(c, r)
  remove(c, r)
  return true
end

function actions.hold(c, r)
  unlink(c, r)
  r.status, r.updated = 'held', c.now
  save(c, r)
  link(c, r)
  return true
end

-- change does an action to the chosen jobs. Arguments: the action, queue, kind, group, key, the
-- statuses with a comma behind each, how many arguments only this action has, these, and the seq of
-- the jobs. It answers with how many there were, and with worker and seq of those that run.
local function change(keys, args)
  local c = open(keys)
  local n, running, first = 0, {}, 8 + tonumber(args[7])
  local own = { unpack(args, 8, first - 1) }
  for i = first, #args do
    local r = load(c, args[i])
    if r and string.find(args[6], r.status .. ',', 1, true) and isChosen(r, args[2], args[3], args[4], args[5])
      and actions[args[1]](c, r, own) then
      n = n + 1
      if r.status == 'running' then running[#running + 1] = { r.worker, r.seq } end
    end
  end
  finish(c)
  return { n, running }
end

-- scan answers with the seq of the next jobs of a sorted set behind a seq, the lowest first, and
-- with the seq that was drawn last. Arguments: the set, and the seq.
local function scan(keys, args)
  local c = open(keys)
  return {
    redis.call('ZRANGEBYSCORE', c.base .. args[1], '(' .. args[2], '+inf', 'LIMIT', 0, STEP),
    redis.call('HGET', c.base .. 'meta', 'seq') or '0',
  }
end

redis.register_function {
  function_name = 'errand_change_VERSION', callback = change, flags = { 'allow-oom' },
}
redis.register_function {
  function_name = 'errand_scan_VERSION', callback = scan, flags = { 'no-writes' },
}
