-- Reports whether there are fewer than 10,000 pending jobs. It looks at no more. For another status that has an index,
-- Jobs replaces the word pending by its name.
-- Index: errand_jobs_pending; errand_jobs_dead, errand_jobs_held, errand_jobs_cancelled.
SELECT count(*) < 10000
FROM (SELECT 1 FROM errand_jobs INDEXED BY errand_jobs_pending WHERE status = 'pending' LIMIT 10000);
