package registry

import (
	"errors"
	"time"

	"github.com/signalbox-dev/signalbox/platform/conf"
)

// Config holds the settings of the registry. Settings without REGISTRY in their name are shared with other services.
type Config struct {
	AuthLease     time.Duration `env:"SERVICE_AUTH_LEASE, default=10m" doc:"how long a replica of inference serves without contact to the registry; a revocation waits at most this long for a replica that is cut off"`
	MaxUploadMB   int64         `env:"SERVICE_MAX_UPLOAD_MB, default=4096" doc:"largest upload in MiB"`
	ProbeDeadline time.Duration `env:"SERVICE_REGISTRY_PROBE_DEADLINE, default=2m" doc:"longest time from the start of an engine to its first generated token"`
	// Ages holds how long rows and objects are kept.
	Ages Ages
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
	return errors.Join(append(errs, c.Ages.check())...)
}
