package jobs

import (
	"errors"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/conf"
)

// Config holds the settings of the jobs service.
type Config struct {
	// ImageRegistries are the registry hosts allowed for job images.
	ImageRegistries []string `env:"SERVICE_JOBS_IMAGE_REGISTRIES" doc:"registries allowed for job images, as host or host:port, separated by commas; none by default"`
	// DefaultGPULimit is the number of GPUs that an account without its own limit may hold.
	DefaultGPULimit int `env:"SERVICE_JOBS_DEFAULT_GPU_LIMIT, default=8" doc:"GPUs that an account may hold at once unless it has its own limit"`
	// DefaultTeamGPULimit is the number of GPUs that a team without its own limit may hold.
	DefaultTeamGPULimit int `env:"SERVICE_JOBS_DEFAULT_TEAM_GPU_LIMIT, default=64" doc:"GPUs that the jobs in a team's projects may hold at once unless the team has its own limit"`
	// NodeSlots is how many work items without a GPU may run on a node at the same time; 0 derives it from the node's
	// CPUs.
	NodeSlots int `env:"SERVICE_JOBS_NODE_SLOTS, default=0" doc:"attempts and engines without a GPU that a node runs at once; 0 means eight per CPU, at least sixteen"`
	// SlurmWorks is how many attempts a Slurm fleet may have at the same time, held or run by Slurm.
	SlurmWorks int `env:"SERVICE_JOBS_SLURM_WORKS, default=200" doc:"attempts that a Slurm fleet has at once, waiting in Slurm or running; more wait in the queue of Signalbox"`
	// NodeLease is how long a node remains ready after its last message.
	NodeLease time.Duration `env:"SERVICE_JOBS_NODE_LEASE, default=30s" doc:"a node that is silent for this long counts as lost and gets no new work"`
	// FenceTimeout is how long after a node's last message its work items are given up.
	FenceTimeout time.Duration `env:"SERVICE_JOBS_FENCE_TIMEOUT, default=120s" doc:"if a node is silent for this long, its attempts and engines that have not renewed their leases are given up and started on other nodes"`
	// SilenceStopPools was replaced by a setting of each pool. Validate fails if it is set, because it has no effect.
	SilenceStopPools string `env:"SERVICE_JOBS_SILENCE_STOP_POOLS" doc:"removed; must be empty; for each pool that it named, set on_silence to stop instead"`
	// JoinTimeout is the maximum time from the join of a node to its first connection.
	JoinTimeout time.Duration `env:"SERVICE_JOBS_JOIN_TIMEOUT, default=24h" doc:"a node that has joined a fleet but not connected within this time is removed and must join again"`
	// SchedulerInterval is the pause between two scheduler passes without a wake-up.
	SchedulerInterval time.Duration `env:"SERVICE_JOBS_SCHEDULER_INTERVAL, default=2s" doc:"pause between two scheduler passes if no change wakes the scheduler earlier"`
	// IngestEndpoint overrides the address to which training processes report.
	IngestEndpoint string `env:"SERVICE_JOBS_INGEST_ENDPOINT" doc:"base URL at which trainings reach the ingest routes, including /api/ingest; derived from the public URL if empty"`
	// Ages are how long rows are kept.
	Ages Ages
}

// Validate reports every invalid setting.
func (c *Config) Validate() error {
	errs := []error{c.Ages.check()}
	if c.DefaultGPULimit < 0 {
		errs = append(errs, conf.Errorf("SERVICE_JOBS_DEFAULT_GPU_LIMIT", "must not be negative"))
	}
	if c.DefaultTeamGPULimit < 0 {
		errs = append(errs, conf.Errorf("SERVICE_JOBS_DEFAULT_TEAM_GPU_LIMIT", "must not be negative"))
	}
	if c.NodeSlots < 0 {
		errs = append(errs, conf.Errorf("SERVICE_JOBS_NODE_SLOTS", "must not be negative"))
	}
	if c.SlurmWorks < 1 {
		errs = append(errs, conf.Errorf("SERVICE_JOBS_SLURM_WORKS", "must be at least 1"))
	}
	if c.NodeLease < time.Second {
		errs = append(errs, conf.Errorf("SERVICE_JOBS_NODE_LEASE", "must be at least 1s"))
	}
	if c.SilenceStopPools != "" {
		errs = append(errs, conf.Errorf("SERVICE_JOBS_SILENCE_STOP_POOLS",
			"was replaced by the field on_silence of pools; remove the setting, and for each pool in it, set on_silence to stop with PATCH /api/cluster/pools/{pool}"))
	}
	if c.FenceTimeout < c.NodeLease {
		errs = append(errs, conf.Errorf("SERVICE_JOBS_FENCE_TIMEOUT", "must be at least SERVICE_JOBS_NODE_LEASE"))
	}
	if c.JoinTimeout < time.Minute {
		errs = append(errs, conf.Errorf("SERVICE_JOBS_JOIN_TIMEOUT", "must be at least 1m"))
	}
	if c.SchedulerInterval < 10*time.Millisecond {
		errs = append(errs, conf.Errorf("SERVICE_JOBS_SCHEDULER_INTERVAL", "must be at least 10ms"))
	}
	for _, r := range c.ImageRegistries {
		if r == "" || r != strings.ToLower(r) || strings.ContainsAny(r, "/ @*") {
			errs = append(errs, conf.Errorf("SERVICE_JOBS_IMAGE_REGISTRIES", "%q is not a lower-case host or host:port", r))
		}
	}
	return errors.Join(errs...)
}

// giveUp returns the time from the loss of a node until its work is given up.
func (c *Config) giveUp() time.Duration { return c.FenceTimeout - c.NodeLease }

// renewal returns the time between two renewals of a lease: a quarter of the fence timeout, so that two
// renewals may fail.
func (c *Config) renewal() time.Duration { return max(time.Second, c.FenceTimeout/4) }

// heartbeat returns the interval of heartbeats in both directions: a third of the lease, but at least one second.
func (c *Config) heartbeat() time.Duration { return max(time.Second, c.NodeLease/3) }
