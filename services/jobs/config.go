package jobs

import (
	"errors"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/conf"
)

// Config are the service's own settings.
type Config struct {
	// ImageRegistries are the hosts that images may come from.
	ImageRegistries []string `env:"SERVICE_JOBS_IMAGE_REGISTRIES" doc:"registries that job images may come from, as host or host:port, separated by commas; none by default"`
	// DefaultGPULimit is what an account without a limit of its own may hold.
	DefaultGPULimit int `env:"SERVICE_JOBS_DEFAULT_GPU_LIMIT, default=8" doc:"GPUs that an account may hold at once unless it has a limit of its own"`
	// DefaultTeamGPULimit is what a team without a limit of its own may hold.
	DefaultTeamGPULimit int `env:"SERVICE_JOBS_DEFAULT_TEAM_GPU_LIMIT, default=64" doc:"GPUs that the jobs in a team's projects may hold at once unless the team has a limit of its own"`
	// NodeSlots is how many works without a GPU a node takes.
	NodeSlots int `env:"SERVICE_JOBS_NODE_SLOTS, default=0" doc:"works without a GPU that a node takes at once; 0 is eight a CPU, and at least sixteen"`
	// NodeLease is how long a silent node counts as ready.
	NodeLease time.Duration `env:"SERVICE_JOBS_NODE_LEASE, default=30s" doc:"a node that was silent for this long is lost and gets no new work"`
	// FenceTimeout is how long a silent node keeps its works.
	FenceTimeout time.Duration `env:"SERVICE_JOBS_FENCE_TIMEOUT, default=120s" doc:"works of a node that was silent for this long are given up and run elsewhere"`
	// SchedulerInterval is the pause between two looks at the queue without a wake-up.
	SchedulerInterval time.Duration `env:"SERVICE_JOBS_SCHEDULER_INTERVAL, default=2s" doc:"pause between two looks at all that waits, when nothing wakes the scheduler earlier"`
	// IngestEndpoint replaces the address that training reports to.
	IngestEndpoint string `env:"SERVICE_JOBS_INGEST_ENDPOINT" doc:"base of the ingest routes as training reaches it, with /api/ingest; on the public URL where empty"`
}

// Validate names every setting that cannot be used.
func (c *Config) Validate() error {
	var errs []error
	if c.DefaultGPULimit < 0 {
		errs = append(errs, conf.Faultf("SERVICE_JOBS_DEFAULT_GPU_LIMIT", "want 0 or more"))
	}
	if c.DefaultTeamGPULimit < 0 {
		errs = append(errs, conf.Faultf("SERVICE_JOBS_DEFAULT_TEAM_GPU_LIMIT", "want 0 or more"))
	}
	if c.NodeSlots < 0 {
		errs = append(errs, conf.Faultf("SERVICE_JOBS_NODE_SLOTS", "want 0 or more"))
	}
	if c.NodeLease < time.Second {
		errs = append(errs, conf.Faultf("SERVICE_JOBS_NODE_LEASE", "want at least 1s"))
	}
	if c.FenceTimeout < c.NodeLease {
		errs = append(errs, conf.Faultf("SERVICE_JOBS_FENCE_TIMEOUT", "want at least SERVICE_JOBS_NODE_LEASE"))
	}
	if c.SchedulerInterval < 10*time.Millisecond {
		errs = append(errs, conf.Faultf("SERVICE_JOBS_SCHEDULER_INTERVAL", "want at least 10ms"))
	}
	for _, r := range c.ImageRegistries {
		if r == "" || r != strings.ToLower(r) || strings.ContainsAny(r, "/ @*") {
			errs = append(errs, conf.Faultf("SERVICE_JOBS_IMAGE_REGISTRIES", "%q is no lower-case host or host:port", r))
		}
	}
	return errors.Join(errs...)
}

// heartbeat is how often a node is told and tells: three times a lease.
func (c *Config) heartbeat() time.Duration { return max(time.Second, c.NodeLease/3) }
