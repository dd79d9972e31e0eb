-- The simplest insert of many jobs: it has no keys, returns no ids, and wakes no worker.
INSERT INTO errand.jobs (kind, payload)
SELECT $1, p::jsonb FROM unnest($2::text[]) AS p;
