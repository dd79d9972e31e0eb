-- The rules of queues, as claims and outcomes read them:
--   rules                 hash: queue -> its rules in brief
--   rules:QUEUE           hash: group, or "" for the queue -> its rule
-- A rule leaves out what is nil, 0, false or "":
--   paused running perGroup share rate groupRate onDead, and text, which only Go reads
-- A rate has each, how long a token takes in nanoseconds, and burst. Each is 0 if a group has no
-- limit. In brief there are the fields of the queue's own rule, and:
--   groups   there are rules of groups          rates    a rule has a rate
--   turns    groups take turns: see turns.lua   bounded  a rule bounds how many jobs run or start
--   limit    claims have to keep the rules      lanes    there may be lanes: see turns.lua

local NONE = {}

-- rulesOf returns the rules of a queue in brief, or nil.
local function rulesOf(c, queue)
  if not c.hasRules then return nil end
  if c.rules[queue] == nil then
    local packed = redis.call('HGET', c.base .. 'rules', queue)
    c.rules[queue] = packed and cmsgpack.unpack(packed) or false
  end
  return c.rules[queue] or nil
end

-- saveRules stores the rules of a queue in brief.
local function saveRules(c, queue, rules)
  c.hasRules, c.rules[queue] = true, rules
  if next(rules) then
    redis.call('HSET', c.base .. 'rules', queue, cmsgpack.pack(rules))
  else
    redis.call('HDEL', c.base .. 'rules', queue)
  end
end

-- groupRule returns the rule of a group, which is empty if it has none. "" is no group.
local function groupRule(c, queue, group)
  local rules = rulesOf(c, queue)
  if group == '' or not rules or not rules.groups then return NONE end
  local id = queue .. '\0' .. group
  if not c.groupRules[id] then
    local packed = redis.call('HGET', c.base .. 'rules:' .. queue, group)
    c.groupRules[id] = packed and cmsgpack.unpack(packed) or NONE
  end
  return c.groupRules[id]
end

-- shareOf returns how many jobs of a group are claimed in a turn.
local function shareOf(c, queue, group)
  return groupRule(c, queue, group).share or rulesOf(c, queue).share or 1
end

-- limitOf returns how many jobs of a group may run at once. Jobs without a group have no limit.
local function limitOf(c, queue, group)
  local own = groupRule(c, queue, group)
  if own.paused then return 0 end
  local most = own.perGroup or rulesOf(c, queue).perGroup or 0
  if group == '' or most <= 0 then return math.huge end
  return most
end
