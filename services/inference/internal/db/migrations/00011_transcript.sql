-- +goose Up
-- The transcripts of playground sessions, one row per call.
CREATE TABLE playground_turn (
    id           text             PRIMARY KEY,
    session_id   text             NOT NULL,
    target       integer          NOT NULL,
    at           timestamptz      NOT NULL,
    user_id      text             NOT NULL,
    username     text             NOT NULL,
    method       text             NOT NULL,
    path         text             NOT NULL,
    status       integer          NOT NULL,
    outcome      text             NOT NULL,
    request      text             NOT NULL,
    request_cut  boolean          NOT NULL,
    response     text             NOT NULL,
    response_cut boolean          NOT NULL,
    duration_ms  double precision NOT NULL
);
CREATE INDEX playground_turn_session_idx ON playground_turn (session_id, at, id);
CREATE INDEX playground_turn_at_idx ON playground_turn (at);
