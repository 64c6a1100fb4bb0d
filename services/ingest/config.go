package ingest

import (
	"errors"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Config are ingest's own settings.
type Config struct {
	RedisURL secret.String `env:"SERVICE_REDIS_URL" doc:"Redis that shortens the wait of live readers, as redis://[user:password@]host:port/db; not needed"`
}

// Validate names every setting that cannot be used.
func (c *Config) Validate() error {
	if c.RedisURL.IsZero() {
		return nil
	}
	if u := c.RedisURL.Reveal(); !strings.HasPrefix(u, "redis://") && !strings.HasPrefix(u, "rediss://") && !strings.HasPrefix(u, "unix://") {
		return errors.New("SERVICE_REDIS_URL: want redis://[user:password@]host:port/db")
	}
	return nil
}
