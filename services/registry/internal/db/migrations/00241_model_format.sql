-- +goose Up
ALTER TABLE model_version VALIDATE CONSTRAINT model_version_format_check;
