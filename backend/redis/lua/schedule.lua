-- Schedules. They are in partition 0:
--   schedules             hash: name -> the row of the schedule, a text
--   versions              hash: name -> its version
--   ticks                 sorted set: names, by the next tick
--   lasts                 hash: name -> the job of the last tick
--   skips                 hash: name -> ticks that have enqueued nothing
--   firings               hash: name -> number, time, how many jobs, tick and row before, and the
--                         ticks of the jobs, as since November 28, 2026
--   begun                 sorted set: names in firings, by when they were begun
-- The partition of jobs has, of each schedule that has fired there:
--   fired:NAME            its last ticks, the oldest first: tick, and the answer of enqueue
--
-- The jobs of a tick are in other partitions than the schedule. So a firing has three steps: begin
-- moves the schedule to its next tick and notes the firing, fire enqueues the jobs in each of their
-- partitions, and finish removes the note. A firing that is not finished within TAKEOVER is done
-- again by any process. fired then keeps its jobs from being enqueued twice, also if a failover of
-- partition 0 has lost that they were begun.

local TAKEOVER = 1000000     -- microseconds
local FIRINGS = 100          -- firings that one call takes over at most
local FIRED = 7 * 24 * 3600  -- seconds that fired is kept
local TICKS = 100            -- ticks in fired: as many as one firing has at most

-- tickOf returns the next tick of a schedule, or 0.
local function tickOf(c, name)
  return tonumber(redis.call('ZSCORE', c.base .. 'ticks', name) or 0)
end

-- rowOf returns a schedule as it is answered: name, row, version, next tick, job of the last tick,
-- ticks that have enqueued nothing.
local function rowOf(c, name, text)
  local function of(hash) return redis.call('HGET', c.base .. hash, name) or '0' end
  return { name, text, of('versions'), tickOf(c, name), of('lasts'), of('skips') }
end

-- schedules answers with the time, the cursor of the next page or 0, and schedules. Arguments: the
-- cursor, and the names, or none for all.
local function schedules(keys, args)
  local c, all = open(keys), {}
  if #args > 1 then
    for i = 2, #args do
      local text = redis.call('HGET', c.base .. 'schedules', args[i])
      if text then all[#all + 1] = rowOf(c, args[i], text) end
    end
    return { c.now, '0', all }
  end
  local page = redis.call('HSCAN', c.base .. 'schedules', args[1], 'COUNT', 100)
  for i = 1, #page[2], 2 do all[#all + 1] = rowOf(c, page[2][i], page[2][i + 1]) end
  return { c.now, page[1], all }
end

-- isAsRead reports whether a schedule has that version and that next tick, or 0.
local function isAsRead(c, name, version, tick)
  return (redis.call('HGET', c.base .. 'versions', name) or '0') == version
    and tickOf(c, name) == tonumber(tick)
end

-- setTick stores the next tick of a schedule; 0 means none.
local function setTick(c, name, tick)
  if tick == '0' then
    redis.call('ZREM', c.base .. 'ticks', name)
  else
    redis.call('ZADD', c.base .. 'ticks', tick, name)
  end
end

local function setSchedule(c, name, version, tick, text)
  setTick(c, name, tick)
  if text ~= '' then
    redis.call('HSET', c.base .. 'schedules', name, text)
    redis.call('HSET', c.base .. 'versions', name, version)
    return
  end
  for _, key in ipairs { 'schedules', 'versions', 'lasts', 'skips' } do redis.call('HDEL', c.base .. key, name) end
end

-- change_schedules stores schedules, of which each has 6 arguments: name, version and next tick as
-- they were read, version, next tick, row or "" to delete it. It answers with 1 for each that was
-- as it was read, and else 0.
local function changeSchedules(keys, args)
  local c, answer = open(keys), {}
  for i = 1, #args, 6 do
    local isSame = isAsRead(c, args[i], args[i + 1], args[i + 2])
    if isSame then setSchedule(c, args[i], args[i + 3], args[i + 4], args[i + 5]) end
    answer[#answer + 1] = isSame and 1 or 0
  end
  return answer
end

-- until_tick answers with the microseconds until the next tick, or until a firing is to be taken
-- over: 0 if the time has come, -1 for none. Arguments: 1 to leave out what has come, and the names
-- of schedules to leave alone.
local function untilTick(keys, args)
  local c, isLeft, next = open(keys), {}, math.huge
  for i = 2, #args do isLeft[args[i]] = true end
  local from = args[1] == '1' and '(' .. int(c.now) or '-inf'
  local ticks = redis.call('ZRANGEBYSCORE', c.base .. 'ticks', from, '+inf', 'WITHSCORES', 'LIMIT', 0, #args)
  for i = #ticks - 1, 1, -2 do
    if not isLeft[ticks[i]] then next = tonumber(ticks[i + 1]) end
  end
  local begun = redis.call('ZRANGEBYSCORE', c.base .. 'begun', '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local takeover = begun[2] and tonumber(begun[2]) + TAKEOVER or math.huge
  if args[1] ~= '1' or takeover > c.now then next = math.min(next, takeover) end
  return next == math.huge and -1 or math.max(next - c.now, 0)
end

-- noteOf returns the note of a firing: number, time, how many jobs, tick, row, ticks. One that
-- cannot be read, because it was damaged or is lost, has the number 0 and an empty row.
local function noteOf(c, name)
  local packed = redis.call('HGET', c.base .. 'firings', name)
  local isRead, note = pcall(cmsgpack.unpack, packed)
  if isRead and type(note) == 'table' and type(note[5]) == 'string' then return note end
  return { 0, 0, 0, 0, '' }
end

-- due_schedules answers with the time, with schedules whose tick has come, and with firings to be
-- taken over: name, number, time, how many jobs, tick, row, ticks. Arguments: how many schedules
-- and how many bytes of rows at most, and the names of schedules to leave alone.
local function dueSchedules(keys, args)
  local c, isLeft, rows, stale = open(keys), {}, {}, {}
  local most, room = tonumber(args[1]), tonumber(args[2])
  for i = 3, #args do isLeft[args[i]] = true end
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', c.base .. 'ticks', '-inf', c.now, 'LIMIT', 0, most + #args)) do
    if #rows == most or room <= 0 then break end
    local text = redis.call('HGET', c.base .. 'schedules', name)
    if text and not isLeft[name] and redis.call('HEXISTS', c.base .. 'firings', name) == 0 then
      rows[#rows + 1] = rowOf(c, name, text)
      room = room - #text
    end
  end
  local begun = redis.call('ZRANGEBYSCORE', c.base .. 'begun', '-inf', c.now - TAKEOVER, 'LIMIT', 0, FIRINGS)
  for _, name in ipairs(begun) do
    if room <= 0 then break end
    local note = noteOf(c, name)
    stale[#stale + 1] = { name, unpack(note) }
    room = room - #note[5]
  end
  return { c.now, rows, stale }
end

-- begin_firings moves schedules to their next ticks, and notes their firings. Each schedule has 8
-- arguments: name, version, tick, the tick that follows, row, how many jobs, the time that the
-- firing is for, the ticks of the jobs. It answers with a number for each, or 0 if the schedule has
-- changed or is fired.
local function beginFirings(keys, args)
  local c, answer = open(keys), {}
  local number = math.max(tonumber(redis.call('HGET', c.base .. 'meta', 'firing') or 0), c.now)
  for i = 1, #args, 8 do
    local name, before = args[i], redis.call('HGET', c.base .. 'schedules', args[i])
    local isFree = isAsRead(c, name, args[i + 1], args[i + 2]) and redis.call('HEXISTS', c.base .. 'firings', name) == 0
    if isFree then
      number = number + 1
      setSchedule(c, name, args[i + 1], args[i + 3], args[i + 4])
      if args[i + 5] ~= '0' then
        local note = { number, args[i + 6], args[i + 5], args[i + 2], before, args[i + 7] }
        redis.call('HSET', c.base .. 'firings', name, cmsgpack.pack(note))
        redis.call('ZADD', c.base .. 'begun', c.now, name)
      end
    end
    answer[#answer + 1] = isFree and number or 0
  end
  redis.call('HSET', c.base .. 'meta', 'firing', int(number))
  return answer
end

-- firedOf returns the last ticks of a schedule, the oldest first, and the answers by tick.
local function firedOf(key)
  local packed, answers = redis.call('GET', key), {}
  local last = packed and cmsgpack.unpack(packed) or {}
  if type(last[1]) == 'number' then -- as written before November 25, 2026: number, last tick, answers
    last = { { tonumber(last[2]), last[3][#last[3]] } }
  end
  for _, fired in ipairs(last) do answers[fired[1]] = fired[2] end
  return last, answers
end

-- fire enqueues the jobs of a firing, each unless its tick was fired here. Arguments: name, and of
-- each job its tick and what enqueue takes. It answers as enqueue does, with 0 for a tick that is
-- older than all of fired: its job is forgotten.
local function fire(keys, args)
  local key = open(keys).base .. 'fired:' .. args[1]
  local last, answers = firedOf(key)
  local oldest = #last >= TICKS and last[1][1] or -math.huge
  local answer = enqueueEach(keys, args, 2, 1 + FIELDS, function(c, _, i)
    local tick = tonumber(args[i])
    if not answers[tick] then
      if tick < oldest then return { '0', 1 } end
      answers[tick] = enqueueOne(c, args, i + 1)
      last[#last + 1] = { tick, answers[tick] }
    end
    return answers[tick]
  end)
  table.sort(last, function(a, b) return a[1] < b[1] end)
  while #last > TICKS do table.remove(last, 1) end
  redis.call('SET', key, cmsgpack.pack(last), 'EX', FIRED)
  return answer
end

-- end_firings removes the notes of firings. Each has 4 arguments: name, number, the job of the last
-- tick or 0, and how many ticks have enqueued nothing.
local function endFirings(keys, args)
  local c = open(keys)
  for i = 1, #args, 4 do
    if noteOf(c, args[i])[1] == tonumber(args[i + 1]) then
      redis.call('HDEL', c.base .. 'firings', args[i])
      redis.call('ZREM', c.base .. 'begun', args[i])
      if args[i + 2] ~= '0' and redis.call('HEXISTS', c.base .. 'schedules', args[i]) == 1 then
        redis.call('HSET', c.base .. 'lasts', args[i], args[i + 2])
        redis.call('HINCRBY', c.base .. 'skips', args[i], args[i + 3])
      end
    end
  end
  return 0
end

redis.register_function {
  function_name = 'errand_schedules_VERSION', callback = schedules, flags = { 'no-writes' },
}
redis.register_function {
  function_name = 'errand_until_tick_VERSION', callback = untilTick, flags = { 'no-writes' },
}
redis.register_function {
  function_name = 'errand_due_schedules_VERSION', callback = dueSchedules, flags = { 'no-writes' },
}
redis.register_function { function_name = 'errand_change_schedules_VERSION', callback = changeSchedules }
redis.register_function { function_name = 'errand_begin_firings_VERSION', callback = beginFirings }
redis.register_function { function_name = 'errand_fire_VERSION', callback = fire }
redis.register_function {
  function_name = 'errand_end_firings_VERSION', callback = endFirings, flags = { 'allow-oom' },
}
