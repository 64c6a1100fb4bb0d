-- +goose Up
ALTER TABLE pool VALIDATE CONSTRAINT pool_on_silence;
