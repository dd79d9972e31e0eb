-- How many requests to cancel running jobs there have been. Workers read it to learn of the requests of other processes.
ALTER TABLE errand_fences ADD COLUMN cancels INTEGER NOT NULL DEFAULT 0;
