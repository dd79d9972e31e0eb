CREATE TABLE orders (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer text NOT NULL
);
CREATE TABLE receipts (
    order_id bigint PRIMARY KEY
);
