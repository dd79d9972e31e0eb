-- Writes the statistics of a minute, queue and kind, in the place of those that there are.
-- Index: the primary key.
INSERT OR REPLACE INTO errand_stats (
    minute, queue, kind, done, failed, dead, lost, ran, waited, run_times, wait_times)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);
