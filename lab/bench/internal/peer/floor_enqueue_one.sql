-- The simplest insert of one job.
INSERT INTO errand.jobs (kind, payload) VALUES ($1, $2);
