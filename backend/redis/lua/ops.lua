-- What doctor and explain ask.

-- keptFor returns for how long the job has been kept that ended first with a status, or 0.
local function keptFor(c, status)
  local first = redis.call('ZRANGE', c.base .. 'end:' .. status, 0, 0, 'WITHSCORES')
  return first[2] and c.now - tonumber(first[2]) or 0
end

-- staleLeases counts running jobs whose leases expired long ago, of the first STEP in all.
local function staleLeases(c)
  local n, left = 0, STEP
  for _, queue in ipairs(redis.call('ZRANGE', c.base .. 'leased', 0, -1)) do
    if left <= 0 then break end
    local expired = redis.call('ZRANGEBYSCORE', leaseKey(c, queue), '-inf', c.now, 'LIMIT', 0, left)
    left = left - #expired
    for _, m in ipairs(expired) do
      local r = load(c, (splitLease(m)))
      if r and c.now > r.lease + 4 * (r.lease - r.locked) then n = n + 1 end
    end
  end
  return n
end

-- leftovers answers with for how long the completed job has been kept that ended first, the same of
-- dead and cancelled ones, and how many leases expired long ago.
local function leftovers(keys)
  local c = open(keys)
  return { keptFor(c, 'completed'), math.max(keptFor(c, 'dead'), keptFor(c, 'cancelled')), staleLeases(c) }
end

-- tokens answers with the buckets of groups that are stored: group, what rates.lua says of a
-- bucket, and the time. Arguments: queue, and the groups, "" for the queue's own.
local function tokens(keys, args)
  local c, answer = open(keys), {}
  for i = 2, #args do
    local packed = redis.call('GET', bucketKey(c, args[1], args[i]))
    local b = packed and cmsgpack.unpack(packed)
    if b then answer[#answer + 1] = { args[i], int(b.at), int(b.ahead), int(b.each), int(b.closed), int(c.now) } end
  end
  return answer
end

redis.register_function {
  function_name = 'errand_tokens_VERSION', callback = tokens, flags = { 'no-writes' },
}
redis.register_function {
  function_name = 'errand_leftovers_VERSION', callback = leftovers, flags = { 'no-writes' },
}
