package agent

import (
	"errors"
	"time"

	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Config is the agent's settings.
type Config struct {
	Server       string        `env:"SERVICE_AGENT_SERVER" doc:"address of the gateway where the agent joins, http(s)://host:port"`
	JoinToken    secret.String `env:"SERVICE_AGENT_JOIN_TOKEN" doc:"join token of the fleet; needed at the first start only"`
	Data         string        `env:"SERVICE_AGENT_DATA, default=/var/lib/signalbox-agent" doc:"folder of all that the agent keeps"`
	Environments string        `env:"SERVICE_AGENT_ENVIRONMENTS" doc:"folder of the Python environments; DATA/envs where empty"`
	Hostname     string        `env:"SERVICE_AGENT_HOSTNAME" doc:"name of the node; the machine's where empty"`
	CacheBytes   int64         `env:"SERVICE_AGENT_CACHE_BYTES, default=21474836480" doc:"bytes of objects kept between works; 0 keeps all"`
	StopWorks    bool          `env:"SERVICE_AGENT_STOP_WORKS, default=false" doc:"end attempts and engines when the agent is told to stop"`
	RelayListen  string        `env:"SERVICE_AGENT_RELAY_LISTEN" doc:"address on which engines are reached from other hosts over mutual TLS, host:port; empty keeps them on loopback"`
	RelayHost    string        `env:"SERVICE_AGENT_RELAY_HOST" doc:"name or address under which other hosts reach the relay; the node's hostname where empty"`

	// Exec is the program and its leading arguments that end in shim.Main. Set by
	// the main, which alone knows it.
	Exec []string
	// Environ is the environment of the process. Set by the main.
	Environ []string
	// Version of the program. Set by the main.
	Version string
	// ProbeInterval is the time between two looks at a ready engine; 10 s where 0.
	ProbeInterval time.Duration
}

// Validate implements the check of conf.Load.
func (c Config) Validate() error {
	var errs []error
	if c.Data == "" {
		errs = append(errs, conf.Faultf("SERVICE_AGENT_DATA", "must name a folder"))
	}
	if c.CacheBytes < 0 {
		errs = append(errs, conf.Faultf("SERVICE_AGENT_CACHE_BYTES", "must not be negative, got %d", c.CacheBytes))
	}
	return errors.Join(errs...)
}
