-- The steps in which a run ends. They change states only; the caller unlinks before and links
-- after.

local CANCELLED = 'errand: cancelled, and the lease of its worker expired'
local MOST_FAILURES = 10

-- failuresOf returns the failures of a job, none if they cannot be read.
local function failuresOf(c, seq)
  local packed = fieldsOf(c, seq, 'f')[1]
  if not packed then return {} end
  local isRead, all = pcall(cmsgpack.unpack, packed)
  if not isRead or type(all) ~= 'table' then return {} end
  for _, failure in pairs(all) do
    if type(failure) ~= 'table' or #failure ~= 7 then return {} end
  end
  return all
end

-- addFailure adds the run that ends now to the job's failures.
local function addFailure(c, r, text, stack)
  local key, all = c.base .. 'j:' .. r.seq, failuresOf(c, r.seq)
  if #all >= MOST_FAILURES then table.remove(all, 1) end
  all[#all + 1] = { c.now, r.attempt, r.redrives or 0, r.worker, text, stack, c.now - r.started }
  redis.call('HSET', key, 'f', cmsgpack.pack(all))
end

-- release takes the claim and its lease from a job.
local function release(c, r)
  r.fence, r.worker, r.locked, r.lease, r.updated = nil, nil, nil, nil, c.now
end

-- ended gives a job the status with which it has ended.
local function ended(c, r, status)
  r.status, r.finished = status, c.now
end

-- waiting makes a job pending, without the times of a run.
local function waiting(r)
  r.status, r.started, r.finished = 'pending', nil, nil
end

-- withoutAttempts ends a job that has no attempt left: it is dead, or held if it is ordered and the
-- queue's rule says so.
local function withoutAttempts(c, r)
  local rules = r.ordered and not r.cancel and rulesOf(c, r.queue)
  if rules and rules.onDead == 'hold' then
    waiting(r)
    r.status = 'held'
  else
    ended(c, r, 'dead')
  end
end
