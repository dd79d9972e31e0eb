-- Rates. What is stored of the tokens of a queue or a group is a bucket:
--   tokens:QUEUE 0 GROUP  the bucket of a group, or of the queue for ""
-- It has at, the time in microseconds when it was last spent from; ahead, in how many nanoseconds
-- it was then full; each, how long a token took then; and closed, a time before which there is no
-- token, or 0. A bucket that is not stored is full. In calls, times count from now in nanoseconds:
-- Lua's numbers are too coarse for those of a clock.

local FOREVER = 100 * 365 * 24 * 3600 * 1e9 -- the latest that a bucket is full
local GATHER = 20 * 1e6 -- how long a worker waits for more tokens than one, while none is lost
local KEEP = 3600 * 1000 -- milliseconds that a bucket that was throttled is kept longer: a rule may change meanwhile
local TICK = 1000       -- nanoseconds: the clock of the server tells no less
local MOST = 1000000    -- tokens that one claim spends

-- rateOf returns the rate of a group, or of the queue for "", or nil.
local function rateOf(c, queue, group)
  local rules = rulesOf(c, queue)
  if not rules or not rules.rates then return nil end
  local rate = rules.rate
  if group ~= '' then rate = groupRule(c, queue, group).groupRate or rules.groupRate end
  if rate and rate.each > 0 then return rate end
end

local function bucketKey(c, queue, group)
  return c.base .. 'tokens:' .. queue .. '\0' .. group
end

local function readBucket(c, queue, group)
  local packed = redis.call('GET', bucketKey(c, queue, group))
  return packed and cmsgpack.unpack(packed) or { at = c.now, ahead = 0, each = 0, closed = 0 }
end

-- writeBucket stores a bucket until it is full, and longer if it was throttled. From the first
-- token behind closed on that takes rest nanoseconds.
local function writeBucket(c, queue, group, b, rest)
  local full = math.max(b.at + b.ahead / 1000, b.closed + rest / 1000) - c.now
  local ms = math.max(math.ceil(full / 1000), 1) + (b.closed > 0 and KEEP or 0)
  redis.call('SET', bucketKey(c, queue, group), cmsgpack.pack(b), 'PX', int(ms))
end

-- throttle leaves the rate of a job without tokens for so long: that of its group, or of its queue.
local function throttle(c, r, delay)
  local group = r.group or ''
  if not rateOf(c, r.queue, group) then group = '' end
  local rate = rateOf(c, r.queue, group)
  if not rate then return end
  local b = readBucket(c, r.queue, group)
  b.closed = math.max(b.closed, c.now + delay)
  writeBucket(c, r.queue, group, b, (rate.burst - 1) * rate.each)
end

-- newMeter returns what spends the tokens of one claim in one queue. In place of a meter, nil has
-- tokens for everything.
local function newMeter(c, queue)
  return {
    c = c, queue = queue, full = {}, spent = {},
    wait = -1,       -- until there are tokens for the next job, or -1 if there are
    isEmpty = false, -- the queue's own bucket has no tokens for the next job
  }
end

-- fullIn returns after how long a bucket is full.
local function fullIn(m, group, rate)
  if m.full[group] then return m.full[group] end
  local b, now = readBucket(m.c, m.queue, group), m.c.now
  local passed = math.max(now - b.at, 0) * 1000
  local full = b.ahead - passed
  if b.each > 0 and b.each ~= rate.each then -- the rate has changed: tokens have come at the faster one
    full = math.min((b.ahead / b.each - passed / math.min(b.each, rate.each)) * rate.each, FOREVER)
  end
  full = math.max(full, 0)
  if b.closed > 0 then -- the first token comes then
    full = math.max(full, (b.closed - now) * 1000 + (rate.burst - 1) * rate.each)
  end
  m.full[group] = full
  return full
end

-- waitFor returns after how long a job of that cost may start. TICK or less means now.
local function waitFor(rate, cost, full)
  return full - (rate.burst - math.min(cost, rate.burst)) * rate.each
end

-- refuse notes how long a job of that cost has to wait. If waiting for a little longer loses no
-- token, it is longer.
local function refuse(m, group, rate, cost)
  local full = m.full[group]
  local wait = math.max(waitFor(rate, cost, full), math.min(GATHER, full / 2), 1)
  if m.wait < 0 or wait < m.wait then m.wait = wait end
  if group == '' then m.isEmpty = true end
end

-- tokensOf returns for how many jobs of cost 1 a bucket has tokens.
local function tokensOf(m, group)
  local rate = m and rateOf(m.c, m.queue, group)
  if not rate then return math.huge end
  local full = fullIn(m, group, rate)
  local n = math.floor(math.max(rate.burst * rate.each - full + TICK - 1, 0) / rate.each)
  if n == 0 then refuse(m, group, rate, 1) end
  return math.min(n, MOST)
end

-- bucketsOf returns the buckets that a job of a group spends from.
local function bucketsOf(group)
  if group == '' then return { '' } end
  return { '', group }
end

-- allows reports whether the rates of the queue and the group let a job of that cost start.
local function allows(m, group, cost)
  if not m then return true end
  for _, bucket in ipairs(bucketsOf(group)) do
    local rate = rateOf(m.c, m.queue, bucket)
    if rate and waitFor(rate, cost, fullIn(m, bucket, rate)) >= TICK then
      refuse(m, bucket, rate, cost)
      return false
    end
  end
  return true
end

-- spend spends the tokens of a job that allows has let start.
local function spend(m, group, cost)
  if not m then return end
  for _, bucket in ipairs(bucketsOf(group)) do
    local rate = rateOf(m.c, m.queue, bucket)
    if rate then
      local full = fullIn(m, bucket, rate)
      full = full + math.min(cost, math.floor((FOREVER - full) / rate.each)) * rate.each
      m.full[bucket], m.spent[bucket] = full, rate
      if waitFor(rate, 1, full) >= TICK then refuse(m, bucket, rate, 1) end
    end
  end
end

-- closeMeter stores what was spent.
local function closeMeter(m)
  for bucket, rate in pairs(m.spent) do
    local b = { at = m.c.now, ahead = m.full[bucket], each = rate.each, closed = 0 }
    writeBucket(m.c, m.queue, bucket, b, 0)
  end
end
