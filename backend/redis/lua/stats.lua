-- What runs came to, added up. It is in partition 0:
--   minutes               sorted set: the minutes since 1970 that have statistics
--   stats:MINUTE          hash: QUEUE 0 KIND -> numbers
-- Numbers are a text: digits with a blank between them, in three parts with a bar between them. The
-- first part is done, failed, dead, lost, ran, waited; the others are histograms.

local MOST_STATS = 1000              -- queues and kinds of a minute; further ones are OTHER
local OTHER = '(other)\0(other)'
local MOST = 9007199254740992        -- the sum of two numbers is at most that
local MINUTE = 60000000              -- microseconds

local function sumOf(a, b)
  local sum, n = {}, 0
  for digits in string.gmatch(a, '%d+') do sum[#sum + 1] = tonumber(digits) end
  for digits in string.gmatch(b, '%d+') do
    n = n + 1
    sum[n] = (sum[n] or 0) + tonumber(digits)
  end
  for i, v in ipairs(sum) do sum[i] = int(math.min(v, MOST)) end
  return table.concat(sum, ' ')
end

local function addNumbers(a, b)
  local a1, a2, a3 = string.match(a, '^(.*)|(.*)|(.*)$')
  local b1, b2, b3 = string.match(b, '^(.*)|(.*)|(.*)$')
  return sumOf(a1, b1) .. '|' .. sumOf(a2, b2) .. '|' .. sumOf(a3, b3)
end

-- addStats adds the numbers of a queue and kind to the minute that began so long ago.
local function addStats(c, id, age, numbers)
  local minute = int(math.floor((c.now + MINUTE / 2 - tonumber(age)) / MINUTE))
  local key = c.base .. 'stats:' .. minute
  local before = redis.call('HGET', key, id)
  if not before and redis.call('HLEN', key) >= MOST_STATS then
    id, before = OTHER, redis.call('HGET', key, OTHER)
  end
  redis.call('HSET', key, id, before and addNumbers(before, numbers) or numbers)
  redis.call('ZADD', c.base .. 'minutes', minute, minute)
end

-- pruneStats deletes the statistics of at most STEP minutes that are so long ago. It returns of how
-- many minutes.
local function pruneStats(c, kept)
  local old = redis.call('ZRANGEBYSCORE', c.base .. 'minutes', '-inf', '(' .. (c.now - kept) / MINUTE, 'LIMIT', 0, STEP)
  for _, minute in ipairs(old) do
    redis.call('UNLINK', c.base .. 'stats:' .. minute)
    redis.call('ZREM', c.base .. 'minutes', minute)
  end
  return #old
end

-- addMinute adds the statistics of a minute to a page.
local function addMinute(c, page, minute, hasTimes)
  local found = redis.call('HGETALL', c.base .. 'stats:' .. minute)
  for i = 1, #found, 2 do
    page[#page + 1] = { minute, found[i], hasTimes and found[i + 1] or string.match(found[i + 1], '^[^|]*') }
  end
end

-- stats answers with the time, the minute with which the next page begins or 0, and statistics:
-- minute, queue 0 kind, and numbers. A page has some thousand. Arguments: the first minute, the
-- minute behind the last one, and 1 for histograms.
local function stats(keys, args)
  local c, page = open(keys), {}
  local minutes = redis.call('ZRANGEBYSCORE', c.base .. 'minutes', args[1], '(' .. args[2], 'LIMIT', 0, STEP)
  for _, minute in ipairs(minutes) do
    if #page >= LOOK then return { c.now, minute, page } end
    addMinute(c, page, minute, args[3] == '1')
  end
  return { c.now, #minutes == STEP and int(minutes[STEP] + 1) or '0', page }
end

redis.register_function {
  function_name = 'errand_stats_VERSION', callback = stats, flags = { 'no-writes' },
}
