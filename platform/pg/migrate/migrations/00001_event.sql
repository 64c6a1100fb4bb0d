-- +goose Up
CREATE TABLE event (
    id           text        PRIMARY KEY,
    seq          bigint      GENERATED ALWAYS AS IDENTITY UNIQUE,
    at           timestamptz NOT NULL,
    subject_kind text        NOT NULL,
    subject_id   text        NOT NULL,
    type         text        NOT NULL,
    actor_kind   text        NOT NULL,
    actor_id     text        NOT NULL DEFAULT '',
    from_state   text        NOT NULL DEFAULT '',
    to_state     text        NOT NULL DEFAULT '',
    reason       text        NOT NULL DEFAULT '',
    message      text        NOT NULL DEFAULT '',
    data         json
);
CREATE INDEX event_subject ON event (subject_kind, subject_id, seq);
