-- +goose Up
CREATE TABLE idempotency (
    subject    text        NOT NULL,
    route      text        NOT NULL,
    key        text        NOT NULL,
    body_hash  bytea       NOT NULL,
    answer     bytea,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (subject, route, key)
);
CREATE INDEX idempotency_expires ON idempotency (expires_at);
