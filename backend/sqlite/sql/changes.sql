-- Returns how many requests to cancel running jobs there have been, and the version of the rules and pauses.
SELECT cancels, rules FROM errand_fences;
