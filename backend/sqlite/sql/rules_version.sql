-- Returns the version of the rules.
SELECT rules FROM errand_fences;
