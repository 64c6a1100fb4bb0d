-- +goose Up
-- The evaluation that a run reported. The columns head and rollout.parts hold JSON as text.
CREATE TABLE evaluation (
    run_id            text PRIMARY KEY,
    name              text NOT NULL,
    version           text,
    head              text NOT NULL,
    tasks_total       int,
    rollouts_per_task int,
    -- A task is solved by a rollout with at least this reward.
    pass_reward       double precision,
    started_at        timestamptz NOT NULL
);
-- The rollouts of tasks. If two attempts report the same rollout, the newer attempt's report is stored. task is an
-- opaque key, never the content of the task.
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
