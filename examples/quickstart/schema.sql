-- The shop's own tables, in the same database as errand's. That a job can be
-- enqueued in the transaction that writes an order is all that errand is about.
-- PostgreSQL and SQLite both understand this.
CREATE TABLE orders (
    id       bigint PRIMARY KEY,
    customer text NOT NULL,
    email    text NOT NULL,
    item     text NOT NULL,
    cents    bigint NOT NULL
);

-- No unique constraint, on purpose: that each order has one confirmation and not
-- two is for errand to prove.
CREATE TABLE confirmations (
    order_id bigint NOT NULL REFERENCES orders (id),
    email    text NOT NULL
);
