-- Returns the paused kinds.
SELECT kind FROM errand_paused_kinds ORDER BY kind;
