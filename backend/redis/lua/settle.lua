-- settle records outcomes. Arguments: 1 if completed jobs are deleted; and of each outcome: seq,
-- fence, worker, action, delay, error, the error's bytes that go into the failure, stack, output, 1
-- if it throttles. It answers with 0 for each outcome that was recorded, and 1 for each job that is
-- lost.

local OUTCOME = 10
local DONE, RETRY, DEAD, RELEASE, CANCEL = '0', '1', '2', '3', '4'

local function complete(c, r, args, i, isDropped)
  unlink(c, r)
  if isDropped then
    redis.call('UNLINK', c.base .. 'j:' .. r.seq)
    return
  end
  r.locked, r.lease, r.updated = nil, nil, c.now
  ended(c, r, 'completed')
  if args[i + 8] ~= '' then
    save(c, r, 'o', args[i + 8])
  else
    save(c, r)
  end
  link(c, r)
end

-- fail ends a run that did not complete its job.
local function fail(c, r, action, delay)
  if action == RELEASE then
    r.attempt = r.attempt > 1 and r.attempt - 1 or nil
  end
  if action == DEAD then
    withoutAttempts(c, r)
    r.cancel = nil
  elseif action == CANCEL or r.cancel then
    r.cancel = r.cancel or c.now
    ended(c, r, 'cancelled')
  elseif action == RETRY and r.attempt >= r.max then
    withoutAttempts(c, r)
  else
    if action == RETRY or delay > 0 then r.due = micros(c.now + delay) end
    waiting(r)
  end
end

local function settleOne(c, r, args, i, isDropped)
  local action = args[i + 3]
  if action == DONE then
    complete(c, r, args, i, isDropped)
    return
  end
  unlink(c, r)
  if action ~= RELEASE then
    r.error = set(args[i + 5])
    addFailure(c, r, string.sub(args[i + 5], 1, tonumber(args[i + 6])), args[i + 7])
  end
  release(c, r)
  if args[i + 9] == '1' then throttle(c, r, tonumber(args[i + 4])) end
  fail(c, r, action, tonumber(args[i + 4]))
  save(c, r)
  link(c, r)
end

local function settle(keys, args)
  local c = open(keys)
  local answer = {}
  for i = 2, #args, OUTCOME do
    local r = load(c, args[i])
    if isHeld(r, args[i + 1], args[i + 2]) then
      settleOne(c, r, args, i, args[1] == '1')
      answer[#answer + 1] = 0
    else
      answer[#answer + 1] = 1
    end
  end
  finish(c)
  return answer
end

redis.register_function {
  function_name = 'errand_settle_VERSION', callback = settle, flags = { 'allow-oom' },
}
