-- +goose Up
-- What each epoch has changed in the data that inference serves from, so that a replica that has an earlier epoch
-- receives only the changes. A row names a deployment or a token; an epoch that changed neither has one empty row.
-- An epoch without a row was made by a version that does not write them. Old rows are deleted.
CREATE TABLE snapshot_change (
    epoch         bigint NOT NULL,
    deployment_id text   NOT NULL DEFAULT '',
    token_id      text   NOT NULL DEFAULT '',
    PRIMARY KEY (epoch, deployment_id, token_id)
);
