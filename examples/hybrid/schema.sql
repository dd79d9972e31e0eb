-- The shop's own tables, in the same database as errand's.
CREATE TABLE orders (
    id   bigint PRIMARY KEY,
    item text NOT NULL
);

-- No unique constraint, on purpose: the audit counts orders that are confirmed twice.
CREATE TABLE confirmations (
    order_id bigint NOT NULL REFERENCES orders (id)
);
