-- reassign gives claimed jobs to other workers. Arguments: seq, fence, worker and the new worker of
-- each job. It answers for each: 0 done, or 1 if that worker does not hold it.
local function reassign(keys, args)
  local c, answer = open(keys), {}
  for i = 1, #args, 4 do
    local r = load(c, args[i])
    if isHeld(r, args[i + 1], args[i + 2]) then
      r.worker = args[i + 3]
      save(c, r)
      answer[#answer + 1] = 0
    else
      answer[#answer + 1] = 1
    end
  end
  return answer
end

redis.register_function {
  function_name = 'errand_reassign_VERSION', callback = reassign, flags = { 'allow-oom' },
}
