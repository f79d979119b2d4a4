CREATE TABLE sqlc_orders (
	id        BIGINT PRIMARY KEY CHECK (id > 0),
	item      VARCHAR(100) NOT NULL,
	refund_of BIGINT NULL
);
