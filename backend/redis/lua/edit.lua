-- edit changes a job that waits. Its own arguments: 1 to run it now, delay or 0, due time (8 bytes)
-- or "", priority or "", payload or "", queue or "", max attempts or 0.
function actions.edit(c, r, own)
  local to = set(own[6]) or r.queue
  if r.key and to ~= r.queue and holderOf(c, to, r.key) then return false end
  unlink(c, r)
  r.queue, r.updated = to, c.now
  if own[1] == '1' then r.status, r.due = 'pending', micros(c.now) end
  if own[2] ~= '0' then r.due = micros(c.now + tonumber(own[2])) end
  r.due = set(own[3]) or r.due
  if own[4] ~= '' and not r.ordered then r.priority = tonumber(own[4]) end
  if own[7] ~= '0' then r.max = tonumber(own[7]) end
  if own[5] ~= '' then
    save(c, r, 'p', own[5])
  else
    save(c, r)
  end
  link(c, r)
  return true
end
