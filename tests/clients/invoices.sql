-- The business table of the consumers.
CREATE TABLE invoices (
    order_id bigint        NOT NULL,
    total    numeric(12,2) NOT NULL
);
