-- Limited queues, and the turns of groups. Where groups take turns, claims move the due jobs of a
-- queue into lanes, one for each group and kind, and claim from those:
--   lane:QUEUE 0 GROUP 0 KIND  like due, jobs of a group, or for "" those without one
--   lanes:QUEUE 0 KIND         sorted set, all scores 0: groups that have a lane of that kind
--   turns:QUEUE                set: kinds that lanes has or had
--   turn                       hash: queue -> the group that had the last turn
-- When groups take turns no more, claims move the jobs back.

local GROUPS = 1000 -- groups that one claim looks at
local MOVES = 10000 -- jobs that one claim moves into lanes or back
local LANE = 9      -- a lane more takes as long to move as so many jobs
local NAMES = 20    -- groups that are read at once

-- moveToLanes moves due members of a kind into the lanes of their groups. It returns how many jobs
-- take as long.
local function moveToLanes(c, queue, kind, members)
  local byGroup, index = {}, {}
  for _, m in ipairs(members) do
    local group = string.sub(m, 21)
    local lane = byGroup[group]
    if not lane then
      lane = {}
      byGroup[group] = lane
      index[#index + 1] = 0
      index[#index + 1] = group
    end
    lane[#lane + 1] = 0
    lane[#lane + 1] = m
  end
  for group, lane in pairs(byGroup) do
    redis.call('ZADD', laneKey(c, queue, group, kind), unpack(lane))
  end
  redis.call('ZADD', lanesKey(c, queue, kind), unpack(index))
  redis.call('ZREM', dueKey(c, queue, kind), unpack(members))
  return #members + LANE * (#index / 2 - 1)
end

-- fillLanes moves due jobs of the kinds into lanes. It returns true if there are more.
local function fillLanes(c, queue, kinds)
  local left = MOVES
  for _, kind in ipairs(kindsOf(c, kinds, 'kinds:', queue)) do
    local found = 0
    repeat
      local members = redis.call('ZRANGE', dueKey(c, queue, kind), 0, STEP - 1)
      if #members > 0 then left = left - moveToLanes(c, queue, kind, members) end
      found = found + #members
    until #members < STEP or left <= 0
    if found > 0 then
      redis.call('SADD', c.base .. 'turns:' .. queue, kind)
    else
      redis.call('SREM', c.base .. 'kinds:' .. queue, kind)
    end
    if left <= 0 then return true end
  end
  return false
end

-- emptyLane moves some jobs of a lane back, and returns how many.
local function emptyLane(c, queue, kind, group)
  local key = laneKey(c, queue, group, kind)
  local members, due = redis.call('ZRANGE', key, 0, STEP - 1), {}
  for i, m in ipairs(members) do due[2 * i - 1], due[2 * i] = 0, m end
  if #members > 0 then
    redis.call('ZADD', dueKey(c, queue, kind), unpack(due))
    redis.call('ZREM', key, unpack(members))
  end
  if #members < STEP then redis.call('ZREM', lanesKey(c, queue, kind), group) end
  return #members
end

-- emptyLanes moves jobs back from their lanes. It returns true if there are more.
local function emptyLanes(c, queue)
  local left = MOVES
  for _, kind in ipairs(redis.call('SMEMBERS', c.base .. 'turns:' .. queue)) do
    redis.call('SADD', c.base .. 'kinds:' .. queue, kind)
    local group
    repeat
      group = redis.call('ZRANGE', lanesKey(c, queue, kind), 0, 0)[1]
      if group then left = left - emptyLane(c, queue, kind, group) - LANE end
      if left <= 0 then return true end
    until not group
    redis.call('SREM', c.base .. 'turns:' .. queue, kind)
  end
  return false
end

-- isBelow compares names by their bytes, as sorted sets do. Lua's own operator follows the locale.
local function isBelow(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- nextName moves a list of groups to its next one.
local function nextName(s)
  s.i = s.i + 1
  if s.i > #s.groups and not s.last then
    s.groups = redis.call('ZRANGEBYLEX', s.key, s.from, s.to, 'LIMIT', 0, NAMES)
    s.i, s.last = 1, #s.groups < NAMES
    s.from = '(' .. (s.groups[#s.groups] or '')
  end
  s.group = s.groups[s.i]
end

-- groupsBetween returns lists of the groups in a part of the ring, one for each kind.
local function groupsBetween(c, queue, kinds, from, to)
  local lists = {}
  for _, kind in ipairs(kinds) do
    local s = { kind = kind, key = lanesKey(c, queue, kind), from = from, to = to, i = 0, groups = {} }
    nextName(s)
    lists[#lists + 1] = s
  end
  return lists
end

-- nextGroup returns the first group of all lists, with the kinds of its lanes, or nil.
local function nextGroup(lists)
  local first
  for _, s in ipairs(lists) do
    if s.group and (not first or isBelow(s.group, first)) then first = s.group end
  end
  if not first then return nil end
  local kinds = {}
  for _, s in ipairs(lists) do
    if s.group == first then
      kinds[#kinds + 1] = s.kind
      nextName(s)
    end
  end
  return { name = first, kinds = kinds }
end

-- takeFromLanes claims up to n jobs of a group, and returns how many. It forgets lanes that are
-- empty.
local function takeFromLanes(c, q, group, n)
  local all = {}
  for _, kind in ipairs(group.kinds) do
    all[#all + 1] = newSource(laneKey(c, q.queue, group.name, kind), kind, math.min(n + 1, CHUNK))
  end
  local taken = takeFirst(c, q, all, n)
  for _, s in ipairs(all) do
    if not s.member then redis.call('ZREM', lanesKey(c, q.queue, s.kind), group.name) end
  end
  return taken
end

-- visit gives a group a turn of up to most jobs. It returns true if another turn may bring more.
local function visit(c, q, group, most)
  local before = q.last
  q.last = group.name
  local free = roomOf(c, q.queue, group.name)
  if group.name ~= '' and free > 0 then free = math.min(free, tokensOf(q.meter, group.name)) end
  local n = math.min(free, q.limit - #q.jobs, most)
  if n <= 0 then return false end
  local taken = takeFromLanes(c, q, group, n)
  local isFull = q.full or (q.meter and q.meter.isEmpty)
  q.isOver = isFull or #q.jobs >= q.limit
  if taken == 0 and isFull then q.last = before end -- the group's turn is still to come
  return taken == n and free > n
end

-- firstRound gives each group a turn: those behind the one that had the last turn, and then the
-- others. It returns those that may have more jobs.
local function firstRound(c, q, kinds)
  local open, seen, after = {}, 0, q.last
  for _, part in ipairs { { '(' .. after, '+' }, { '-', '[' .. after } } do
    local lists = groupsBetween(c, q.queue, kinds, part[1], part[2])
    for group in function() return nextGroup(lists) end do
      if seen == GROUPS then
        q.more = true
        return open
      end
      seen = seen + 1
      if visit(c, q, group, shareOf(c, q.queue, group.name)) then open[#open + 1] = group end
      if q.isOver then return {} end
    end
  end
  return open
end

-- anotherRound shares the room that is left between those groups, and returns the ones that may
-- have more jobs.
local function anotherRound(c, q, groups)
  local room, shares, open = q.limit - #q.jobs, 0, {}
  for _, group in ipairs(groups) do shares = shares + shareOf(c, q.queue, group.name) end
  for _, group in ipairs(groups) do
    local share = shareOf(c, q.queue, group.name)
    if visit(c, q, group, math.max(share, math.floor(room * share / shares))) then open[#open + 1] = group end
    if q.isOver then return {} end
  end
  return open
end

-- claimTurns claims from the lanes of a queue, so that its groups take turns.
local function claimTurns(c, q)
  q.more = fillLanes(c, q.queue, q.kinds)
  local after = redis.call('HGET', c.base .. 'turn', q.queue) or ''
  q.last = after
  local open = firstRound(c, q, kindsOf(c, q.kinds, 'turns:', q.queue))
  while #open > 0 do open = anotherRound(c, q, open) end
  if q.last ~= after then redis.call('HSET', c.base .. 'turn', q.queue, q.last) end
end

-- claimLimited claims as many jobs as the rules of a queue allow.
local function claimLimited(c, q, rules)
  if rules.paused then return end
  if rules.bounded then q.limit = q.limit - q.ahead end
  if rules.running then
    q.limit = math.min(q.limit, rules.running - redis.call('ZCARD', leaseKey(c, q.queue)))
  end
  if q.limit <= 0 then return end
  if rules.rates then
    q.meter = newMeter(c, q.queue)
    q.limit = math.min(q.limit, tokensOf(q.meter, ''))
  end
  q.isLimited = true
  if q.limit > 0 then
    if rules.turns then claimTurns(c, q) else claimPlain(c, q) end
    if not q.meter or not q.meter.isEmpty then claimOrdered(c, q) end
  end
  if q.meter then closeMeter(q.meter) end
end
