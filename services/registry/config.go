package registry

import (
	"errors"
	"time"

	"github.com/signalbox-dev/signalbox/platform/conf"
)

// Config holds the settings of the registry. Settings without REGISTRY in their name are shared with other services.
type Config struct {
	AuthLease   time.Duration `env:"SERVICE_AUTH_LEASE, default=10m" doc:"how long a replica of inference serves without contact to the registry; a revocation waits at most this long for a replica that is cut off"`
	MaxUploadMB int64         `env:"SERVICE_MAX_UPLOAD_MB, default=4096" doc:"largest upload in MiB"`
	// PlaygroundDays is how long an ended playground session stays readable.
	PlaygroundDays int           `env:"SERVICE_REGISTRY_PLAYGROUND_DAYS, default=30" doc:"days until an ended playground session is deleted; 0 keeps it"`
	ProbeDeadline  time.Duration `env:"SERVICE_REGISTRY_PROBE_DEADLINE, default=2m" doc:"longest time from the start of an engine to its first generated token"`
}

// Validate returns an error that lists every invalid setting.
func (c *Config) Validate() error {
	var errs []error
	if c.AuthLease < 2*time.Second {
		// Replicas renew their lease every second.
		errs = append(errs, conf.Errorf("SERVICE_AUTH_LEASE", "must be at least 2s"))
	}
	if c.MaxUploadMB < 1 {
		errs = append(errs, conf.Errorf("SERVICE_MAX_UPLOAD_MB", "must be at least 1"))
	}
	if c.ProbeDeadline < time.Second {
		errs = append(errs, conf.Errorf("SERVICE_REGISTRY_PROBE_DEADLINE", "must be at least 1s"))
	}
	if c.PlaygroundDays < 0 {
		errs = append(errs, conf.Errorf("SERVICE_REGISTRY_PLAYGROUND_DAYS", "must not be negative"))
	}
	return errors.Join(errs...)
}
