-- The output and the progress of jobs that have one. Prune removes the rows of jobs that it removes, and those whose
-- jobs are not in the table any more.
CREATE TABLE errand_results (
    job_id      INTEGER PRIMARY KEY,
    output      TEXT,
    progress    TEXT,
    progress_at INTEGER
) STRICT;
