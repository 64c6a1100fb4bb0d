package ingest

import (
	"errors"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Config holds the settings of the ingest service.
type Config struct {
	RedisURL secret.String `env:"SERVICE_REDIS_URL" doc:"optional Redis that notifies live readers sooner, as redis://[user:password@]host:port/db"`
}

// Validate returns an error if the Redis URL has an unsupported scheme.
func (c *Config) Validate() error {
	if c.RedisURL.IsZero() {
		return nil
	}
	if u := c.RedisURL.Reveal(); !strings.HasPrefix(u, "redis://") && !strings.HasPrefix(u, "rediss://") && !strings.HasPrefix(u, "unix://") {
		return errors.New("SERVICE_REDIS_URL must have the form redis://[user:password@]host:port/db, or rediss:// for TLS")
	}
	return nil
}
