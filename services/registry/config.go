package registry

import (
	"errors"
	"time"

	"github.com/signalbox-dev/signalbox/platform/conf"
)

// Config are the registry's own settings. Those without its name are shared with other services.
type Config struct {
	AuthLease     time.Duration `env:"SERVICE_AUTH_LEASE, default=10m" doc:"how long a replica of inference serves without hearing from the registry, and so the longest that a revocation waits for one that is cut off"`
	MaxUploadMB   int64         `env:"SERVICE_MAX_UPLOAD_MB, default=4096" doc:"largest upload in MiB"`
	ProbeDeadline time.Duration `env:"SERVICE_REGISTRY_PROBE_DEADLINE, default=2m" doc:"how long an engine may take from its start to its first generated token"`
}

// Validate names every setting that cannot be used.
func (c *Config) Validate() error {
	var errs []error
	if c.AuthLease < 2*time.Second {
		// A lease is renewed every second.
		errs = append(errs, conf.Faultf("SERVICE_AUTH_LEASE", "want at least 2s"))
	}
	if c.MaxUploadMB < 1 {
		errs = append(errs, conf.Faultf("SERVICE_MAX_UPLOAD_MB", "want at least 1"))
	}
	if c.ProbeDeadline < time.Second {
		errs = append(errs, conf.Faultf("SERVICE_REGISTRY_PROBE_DEADLINE", "want at least 1s"))
	}
	return errors.Join(errs...)
}
