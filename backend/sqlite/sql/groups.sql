-- Goes from group to group of the ordered jobs of queue ?1, behind the group ?2, and a thousand groups at most. For
-- each it returns the name, and the id of the first job if that is due at ?3, of the kinds in the JSON array ?4 (NULL
-- for all), and no job of the group runs; else NULL. The first job is the one with the lowest id.
-- Index: errand_jobs_ordered, errand_jobs_ordered_one.
WITH RECURSIVE groups (name) AS (
    SELECT (
        SELECT min(j.job_group) FROM errand_jobs AS j INDEXED BY errand_jobs_ordered
        WHERE j.queue = ?1 AND j.priority = 2147483647 AND j.job_group IS NOT NULL AND j.status IN ('pending', 'held')
            AND j.job_group > ?2)
    UNION ALL
    SELECT (
        SELECT min(j.job_group) FROM errand_jobs AS j INDEXED BY errand_jobs_ordered
        WHERE j.queue = ?1 AND j.priority = 2147483647 AND j.job_group IS NOT NULL AND j.status IN ('pending', 'held')
            AND j.job_group > g.name)
    FROM groups AS g
    WHERE g.name IS NOT NULL
    LIMIT 1000
)
SELECT
    g.name,
    (SELECT p.id FROM errand_jobs AS p NOT INDEXED
        WHERE p.id = (
                SELECT min(o.id) FROM errand_jobs AS o INDEXED BY errand_jobs_ordered
                WHERE o.queue = ?1 AND o.priority = 2147483647 AND o.job_group IS NOT NULL AND o.status IN ('pending', 'held')
                    AND o.job_group = g.name)
            AND p.status = 'pending'
            AND p.scheduled_at <= ?3
            AND (?4 IS NULL OR p.kind IN (SELECT value FROM json_each(?4)))
            AND NOT EXISTS (
                SELECT 1 FROM errand_jobs AS r INDEXED BY errand_jobs_ordered_one
                WHERE r.queue = ?1 AND r.priority = 2147483647 AND r.job_group IS NOT NULL AND r.status = 'running'
                    AND r.job_group = g.name))
FROM groups AS g
WHERE g.name IS NOT NULL;
