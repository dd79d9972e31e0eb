-- name: CreateOrder :one
INSERT INTO orders (customer) VALUES ($1) RETURNING id;

-- name: CreateReceipt :exec
INSERT INTO receipts (order_id) VALUES ($1);
