-- progress keeps the progress of jobs that the caller holds. Arguments: seq, fence, worker and the
-- progress of each.
local function progress(keys, args)
  local c = open(keys)
  for i = 1, #args, 4 do
    if isHeld(load(c, args[i]), args[i + 1], args[i + 2]) then
      redis.call('HSET', c.base .. 'j:' .. args[i], 'g', args[i + 3], 'a', int(c.now))
    end
  end
  return 0
end

-- result answers with the status and the last error of a job, its output, its progress and when
-- that was reported, or with nothing.
local function result(keys, args)
  local c = open(keys)
  local r = load(c, args[1])
  if not r then return {} end
  local f = redis.call('HMGET', c.base .. 'j:' .. args[1], 'o', 'g', 'a')
  return { r.status, r.error or '', f[1], f[2], f[3] or '0' }
end

redis.register_function { function_name = 'errand_progress_VERSION', callback = progress }
redis.register_function {
  function_name = 'errand_result_VERSION', callback = result, flags = { 'no-writes' },
}
