-- hold_dead: an ordered job of the queue that would be dead is held. See queue.OnDead. It is in rules of queues only.
ALTER TABLE errand_rules ADD COLUMN hold_dead INTEGER NOT NULL DEFAULT 0;
