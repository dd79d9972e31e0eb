-- Counts a request to cancel running jobs, if ?1 is 1; 0 only takes the write lock. A process with workers reads the
-- count, to learn of the requests of other processes.
UPDATE errand_fences SET cancels = cancels + ?1;
