-- The output and the progress of jobs that have one. It has no foreign key: the server would look here for each job that
-- is deleted. Prune removes the rows of jobs that it removes, and those whose jobs are not in the table any more.
CREATE TABLE errand.results (
    job_id      bigint PRIMARY KEY,
    output      jsonb,
    progress    jsonb,
    progress_at timestamptz
);
