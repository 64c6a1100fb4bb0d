package agent

import (
	"cmp"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Config is the agent's settings.
type Config struct {
	Server       string        `env:"SERVICE_AGENT_SERVER" doc:"gateway URL used to join the fleet, http(s)://host:port"`
	JoinToken    secret.String `env:"SERVICE_AGENT_JOIN_TOKEN" doc:"join token of the fleet; required only at the first start"`
	Data         string        `env:"SERVICE_AGENT_DATA, default=/var/lib/signalbox-agent" doc:"data folder of the agent"`
	Environments string        `env:"SERVICE_AGENT_ENVIRONMENTS" doc:"folder of the Python environments; DATA/envs if empty"`
	Hostname     string        `env:"SERVICE_AGENT_HOSTNAME" doc:"name of the node; the machine's host name if empty"`
	CacheBytes   int64         `env:"SERVICE_AGENT_CACHE_BYTES, default=21474836480" doc:"bytes of downloaded objects kept between works; 0 keeps all"`
	StopWorks    bool          `env:"SERVICE_AGENT_STOP_WORKS, default=false" doc:"end attempts and engines when the agent stops"`
	RelayListen  string        `env:"SERVICE_AGENT_RELAY_LISTEN" doc:"address where other hosts reach engines over mutual TLS, host:port; if empty, engines are on loopback only"`
	Isolation    string        `env:"SERVICE_AGENT_ISOLATION, default=required" doc:"required: each work runs inside a boundary, or not at all; none: works run as the agent's user and can read its files"`
	WorkUsers    string        `env:"SERVICE_AGENT_WORK_USERS, default=200000-265535" doc:"range of user ids for works if the agent runs as root; no other users or agents of the machine may use them"`
	WorkPaths    string        `env:"SERVICE_AGENT_WORK_PATHS" doc:"comma-separated files and folders that works may read in addition to /usr, such as /opt/libraries"`
	RelayHost    string        `env:"SERVICE_AGENT_RELAY_HOST" doc:"host name or address that other hosts use to reach the relay; the node's host name if empty"`

	// The fields below are not settings. Process sets them, or the program that embeds the agent.

	// Exec is the command line that runs shim.Main. New returns an error if it is empty.
	Exec []string
	// Environ is the environment of the process.
	Environ []string
	// Version is the version of the program.
	Version string
	// ProbeInterval is the time between two probes of a ready engine; 10 s if 0.
	ProbeInterval time.Duration
}

// Validate checks the settings; conf.Load calls it.
func (c Config) Validate() error {
	var errs []error
	if c.Data == "" {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_DATA", "must not be empty"))
	}
	if c.CacheBytes < 0 {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_CACHE_BYTES", "must not be negative, got %d", c.CacheBytes))
	}
	if c.Isolation != isolationRequired && c.Isolation != isolationNone {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_ISOLATION", "want required or none, got %q", c.Isolation))
	}
	if _, err := boundary.ParseUsers(cmp.Or(c.WorkUsers, defaultWorkUsers)); err != nil {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_WORK_USERS", "%s", err.Error()))
	}
	for _, path := range c.workPaths() {
		if !filepath.IsAbs(path) || boundary.Contains(path, c.Data) {
			errs = append(errs, conf.Errorf("SERVICE_AGENT_WORK_PATHS", "want absolute paths outside of the data folder, got %q", path))
		}
	}
	return errors.Join(errs...)
}

// defaultWorkUsers is the default of SERVICE_AGENT_WORK_USERS.
const defaultWorkUsers = "200000-265535"

// The values of SERVICE_AGENT_ISOLATION.
const (
	isolationRequired = "required"
	isolationNone     = "none"
)

// workPaths returns the paths of WorkPaths.
func (c Config) workPaths() []string {
	return strings.FieldsFunc(c.WorkPaths, func(r rune) bool { return r == ',' })
}
