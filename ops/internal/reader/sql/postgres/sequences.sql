-- The sequences that give numbers that are in use, with the last number of each and the highest in use.
SELECT sequence, last, used FROM errand.sequences_behind() ORDER BY sequence = 'fences', sequence
