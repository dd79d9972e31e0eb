-- Returns how many requests to cancel running jobs there have been.
SELECT cancels FROM errand_fences;
