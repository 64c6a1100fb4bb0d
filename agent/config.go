package agent

import (
	"errors"
	"time"

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
	return errors.Join(errs...)
}
