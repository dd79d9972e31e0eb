-- Jobs may be held, and jobs may be cancelled. Nothing may use the new values before this step has been committed, so
-- the next step does.
ALTER TYPE errand.job_status ADD VALUE 'held';
ALTER TYPE errand.job_status ADD VALUE 'cancelled';
