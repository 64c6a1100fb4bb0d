-- +goose Up
-- What a run reported about its evaluation. head holds JSON as text, and so does rollout.parts.
CREATE TABLE evaluation (
    run_id            text PRIMARY KEY,
    name              text NOT NULL,
    version           text,
    head              text NOT NULL,
    tasks_total       int,
    rollouts_per_task int,
    -- The lowest reward that solves a task.
    pass_reward       double precision,
    started_at        timestamptz NOT NULL
);
-- A rollout of a task. The newest attempt that reports it wins. task is an opaque key, never the task's content.
CREATE TABLE rollout (
    run_id            text NOT NULL,
    task              text NOT NULL,
    number            int NOT NULL,
    attempt           int NOT NULL,
    -- Null if the rollout is masked.
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
