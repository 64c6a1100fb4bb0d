-- +goose Up
-- What a run said of the evaluation that it makes. Its parts are the text of their JSON.
CREATE TABLE evaluation (
    run_id            text PRIMARY KEY,
    name              text NOT NULL,
    version           text,
    head              text NOT NULL,
    tasks_total       int,
    rollouts_per_task int,
    -- The least reward with which a task is solved.
    pass_reward       double precision,
    started_at        timestamptz NOT NULL
);
-- A rollout of a task; the newest attempt that reports it wins. A task is an opaque key, never its content.
CREATE TABLE rollout (
    run_id            text NOT NULL,
    task              text NOT NULL,
    number            int NOT NULL,
    attempt           int NOT NULL,
    -- Null where it is masked.
    reward            double precision,
    passed            boolean,
    masked            boolean NOT NULL,
    parts             text,
    task_group        text,
    turns             int,
    tool_calls        int,
    prompt_tokens     bigint,
    completion_tokens bigint,
    cost              double precision,
    seconds           double precision,
    stop              text,
    error             text,
    trace             text,
    reported_at       timestamptz NOT NULL,
    CHECK (masked = (reward IS NULL)),
    PRIMARY KEY (run_id, task, number)
);

-- +goose Down
DROP TABLE rollout, evaluation;
