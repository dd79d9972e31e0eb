-- Draws a fence, and returns it and the version of the rules. It is the first statement of a claim's transaction, and
-- because it writes, the transaction has the write lock from then on.
UPDATE errand_fences SET last = last + 1 RETURNING last, rules;
