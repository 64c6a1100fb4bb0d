-- +goose Up
-- shipped: a binary of the installation contains the version. So far no version came from elsewhere.
ALTER TABLE recipe ADD COLUMN shipped boolean NOT NULL DEFAULT true;
ALTER TABLE recipe ALTER COLUMN shipped SET DEFAULT false;
-- trusted_digest: the digest that an administrator trusts with protected datasets. Trust does not pass on to other content.
ALTER TABLE recipe ADD COLUMN trusted_digest text;
-- protected: the version comes from a run that read protected datasets. Protection is never lifted.
ALTER TABLE model_version ADD COLUMN protected boolean NOT NULL DEFAULT false;
-- The ids of these datasets.
ALTER TABLE model_version ADD COLUMN protected_datasets text[] NOT NULL DEFAULT '{}';
