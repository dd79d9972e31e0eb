-- aside gives pending jobs to another queue, and leaves them in this partition: see
-- Backend.SetAside. A job stays in its queue if a live job of the other one here has its key.
-- Arguments: the queue, the other one, and the seq of each job. It answers with how many it has
-- changed.
local function aside(keys, args)
  local c, n = open(keys), 0
  for i = 3, #args do
    local r = load(c, args[i])
    local isOurs = r and r.status == 'pending' and r.queue == args[1]
    if isOurs and not (r.key and holderOf(c, args[2], r.key)) then
      unlink(c, r)
      r.queue, r.updated = args[2], c.now
      save(c, r)
      link(c, r)
      n = n + 1
    end
  end
  finish(c)
  return n
end

redis.register_function {
  function_name = 'errand_aside_VERSION', callback = aside, flags = { 'allow-oom' },
}
