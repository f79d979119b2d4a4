-- name: CreateOrder :exec
INSERT INTO sqlc_orders (id, item, refund_of) VALUES ($1, $2, $3);

-- name: GetOrder :one
SELECT * FROM sqlc_orders WHERE id = $1;

-- name: ListOrders :many
SELECT * FROM sqlc_orders WHERE id = ANY(@ids::bigint[]) ORDER BY id;
