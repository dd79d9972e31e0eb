-- The plainest insert of many jobs: no keys, no ids returned, nobody woken.
INSERT INTO errand.jobs (kind, payload)
SELECT $1, p::jsonb FROM unnest($2::text[]) AS p;
