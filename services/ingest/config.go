package ingest

import (
	"errors"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Config holds the settings of the ingest service.
type Config struct {
	RedisURL secret.String `env:"SERVICE_REDIS_URL" doc:"optional Redis that notifies live readers sooner, as redis://[user:password@]host:port/db"`
	// DigestDays is an age at which rows are deleted.
	DigestDays int `env:"SERVICE_INGEST_DIGEST_DAYS, default=30" doc:"days until the digest of a numbered report is deleted, by which another body with the same number is rejected; 0 keeps it"`
}

// Validate returns an error if the Redis URL has an unsupported scheme, or if an age is negative.
func (c *Config) Validate() error {
	if c.DigestDays < 0 {
		return errors.New("SERVICE_INGEST_DIGEST_DAYS must not be negative")
	}
	if c.RedisURL.IsZero() {
		return nil
	}
	if u := c.RedisURL.Reveal(); !strings.HasPrefix(u, "redis://") && !strings.HasPrefix(u, "rediss://") && !strings.HasPrefix(u, "unix://") {
		return errors.New("SERVICE_REDIS_URL must have the form redis://[user:password@]host:port/db, or rediss:// for TLS")
	}
	return nil
}
