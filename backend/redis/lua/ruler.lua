-- How rules are set and read.

-- hasRate reports whether a rate limits anything.
local function hasRate(rate)
  return rate and rate.each > 0
end

-- addBrief adds to the rules in brief what a rule of the queue or of a group says.
local function addBrief(s, rule, group)
  if group ~= '' then
    s.groups, s.turns, s.limit = true, true, true
  else
    for field, value in pairs(rule) do
      if field ~= 'text' then s[field] = value end
    end
    if s.perGroup or s.share or hasRate(s.groupRate) then s.turns = true end
    if s.turns or s.paused or s.running or hasRate(s.rate) then s.limit = true end
  end
  if hasRate(rule.rate) or hasRate(rule.groupRate) then s.rates = true end
  if s.rates or rule.running or (rule.perGroup or 0) > 0 then s.bounded = true end
end

-- brief stores the rules of a queue in brief. Its number of rules is the caller's.
local function brief(c, queue)
  local packed = redis.call('HGET', c.base .. 'rules', queue)
  local s = { lanes = packed and cmsgpack.unpack(packed).lanes or nil }
  local all = redis.call('HGETALL', c.base .. 'rules:' .. queue)
  for i = 1, #all, 2 do addBrief(s, cmsgpack.unpack(all[i + 1]), all[i]) end
  if s.turns then s.lanes = true else redis.call('HDEL', c.base .. 'turn', queue) end
  saveRules(c, queue, s)
end

-- changeRule changes the rule of a queue or a group. A rule that says nothing is removed. To set it
-- ends no pause. It returns whether the rule's pause has changed.
local function changeRule(c, queue, group, action, text)
  local key = c.base .. 'rules:' .. queue
  local packed = redis.call('HGET', key, group)
  local rule = packed and cmsgpack.unpack(packed) or {}
  local paused = rule.paused
  if action == 'set' then
    rule = cjson.decode(text)
    rule.paused = rule.paused or paused
  else
    rule.paused = action == 'pause' or nil
  end
  if next(rule) then
    redis.call('HSET', key, group, cmsgpack.pack(rule))
  else
    redis.call('HDEL', key, group)
  end
  return (rule.paused or false) ~= (paused or false)
end

-- rule changes rules, and wakes the workers of their queues. Arguments: queue, group, action (set,
-- pause or resume) and the rule in JSON, of each. It answers with how many pauses have changed.
local function rule(keys, args)
  local c = open(keys)
  local changed = 0
  for i = 1, #args, 4 do
    if changeRule(c, args[i], args[i + 1], args[i + 2], args[i + 3]) then changed = changed + 1 end
    c.woken[args[i]] = true
  end
  for queue in pairs(c.woken) do brief(c, queue) end
  finish(c)
  return changed
end

-- rules answers with all rules: queue, group, text, and 1 if it is paused.
local function rules(keys)
  local c = open(keys)
  local answer = {}
  for _, queue in ipairs(redis.call('HKEYS', c.base .. 'rules')) do
    local all = redis.call('HGETALL', c.base .. 'rules:' .. queue)
    for i = 1, #all, 2 do
      local r = cmsgpack.unpack(all[i + 1])
      answer[#answer + 1] = { queue, all[i], r.text or '', r.paused and 1 or 0 }
    end
  end
  return answer
end

redis.register_function {
  function_name = 'errand_rule_VERSION', callback = rule, flags = { 'allow-oom' },
}
redis.register_function {
  function_name = 'errand_rules_VERSION', callback = rules, flags = { 'no-writes' },
}
