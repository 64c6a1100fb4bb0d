package agent

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Config is the agent's settings.
type Config struct {
	Server       string        `env:"SERVICE_AGENT_SERVER" doc:"gateway URL used to join the fleet, http(s)://host:port"`
	JoinToken    secret.String `env:"SERVICE_AGENT_JOIN_TOKEN" doc:"join token of the fleet; required only at the first start"`
	Data         string        `env:"SERVICE_AGENT_DATA, default=/var/lib/signalbox-agent" doc:"data folder of the agent"`
	Environments string        `env:"SERVICE_AGENT_ENVIRONMENTS" doc:"folder of the Python environments; if empty, the folder envs in SERVICE_AGENT_DATA"`
	Hostname     string        `env:"SERVICE_AGENT_HOSTNAME" doc:"name of the node; the machine's host name if empty"`
	CacheBytes   int64         `env:"SERVICE_AGENT_CACHE_BYTES, default=21474836480" doc:"bytes of downloaded objects kept between works; 0 keeps all"`
	ReserveBytes int64         `env:"SERVICE_AGENT_RESERVE_BYTES, default=67108864" doc:"bytes of disk space reserved in the data folder; when the disk is full, the reserve is released and works that write are frozen; 0 reserves nothing and freezes no works"`
	EnvBytes     int64         `env:"SERVICE_AGENT_ENVIRONMENT_BYTES, default=42949672960" doc:"bytes of Python environments kept between works; 0 keeps all"`
	WheelBytes   int64         `env:"SERVICE_AGENT_WHEEL_BYTES, default=10737418240" doc:"bytes of downloaded wheels kept for later builds of Python environments; 0 keeps none"`
	StopWorks    bool          `env:"SERVICE_AGENT_STOP_WORKS, default=false" doc:"end attempts and engines when the agent stops"`
	RelayListen  string        `env:"SERVICE_AGENT_RELAY_LISTEN" doc:"host:port at which other hosts reach engines over mutual TLS; if empty, engines listen only on loopback"`
	Isolation    string        `env:"SERVICE_AGENT_ISOLATION, default=required" doc:"required: each work runs isolated, or not at all; none: works run as the agent's user and can read the agent's files"`
	WorkUsers    string        `env:"SERVICE_AGENT_WORK_USERS, default=200000-265535" doc:"range of user ids for works if the agent runs as root; no other users or agents of the machine may use them"`
	WorkPaths    string        `env:"SERVICE_AGENT_WORK_PATHS" doc:"comma-separated files and folders that works may read in addition to /usr, such as /opt/libraries"`
	Pythons      string        `env:"SERVICE_AGENT_PYTHONS" doc:"comma-separated interpreters that the node offers to jobs by spec.runtime.node, each name=/path/to/python; jobs can read the folders of the interpreters"`
	ClosedReach  string        `env:"SERVICE_AGENT_CLOSED_REACH" doc:"comma-separated addresses (host:port) that works without a network may reach in addition to the public listener, such as an S3 server"`
	WorkReach    string        `env:"SERVICE_AGENT_WORK_REACH" doc:"comma-separated addresses (host:port) that works may reach on this node or on hosts of the control plane, such as a proxy"`
	WorkAvoid    string        `env:"SERVICE_AGENT_WORK_AVOID, default=169.254.169.254" doc:"comma-separated networks, hosts or addresses (host:port) that works must not reach, such as the database"`
	KeptPorts    string        `env:"SERVICE_AGENT_PROTECTED_PORTS" doc:"comma-separated TCP ports of this node on which works must never listen, such as the ports of services that may be stopped for a while"`
	LogBytes     int64         `env:"SERVICE_AGENT_LOG_BYTES, default=268435456" doc:"maximum size of the log of a work; the excess is dropped from the middle of the log; 0 means no maximum"`
	LogRate      int64         `env:"SERVICE_AGENT_LOG_RATE, default=1048576" doc:"bytes per second by which the log of a work may grow on average; 0 means no limit"`
	WorkDisk     int64         `env:"SERVICE_AGENT_WORK_DISK_BYTES, default=0" doc:"disk space of a work in bytes, as a disk of its own if the agent runs as root and otherwise as the limit of a watch over attempts, at most half of the free space that is not promised to other works; 0 means an eighth of that free space"`
	WorkFiles    int64         `env:"SERVICE_AGENT_WORK_FILES, default=1048576" doc:"number of files that all processes of a work together may have open, at most a quarter of fs.file-max; 0 means no limit"`
	RunsOn       string        `env:"SERVICE_AGENT_RUNS_ON, default=host" doc:"host: works run on this machine; slurm: attempts run on a Slurm cluster, and this machine has its commands"`
	SlurmFolder  string        `env:"SERVICE_AGENT_SLURM_FOLDER" doc:"with SERVICE_AGENT_RUNS_ON=slurm, an absolute path of a folder that this machine and all nodes of the cluster share; works, environments and cached objects are stored there"`
	RelayHost    string        `env:"SERVICE_AGENT_RELAY_HOST" doc:"host name or address that other hosts use to reach the relay; the node's host name if empty"`

	// The fields below are not settings. Process or the program that embeds the agent sets them.

	// Private lists folders of the program that embeds the agent. No work may see them.
	Private []string
	// Exec is the command line that runs shim.Main. New returns an error if it is empty.
	Exec []string
	// Environ contains the environment variables of the agent process, as returned by os.Environ.
	Environ []string
	// Version is the version of the program.
	Version string
	// ProbeInterval is the time between two probes of a ready engine; 10 s if 0.
	ProbeInterval time.Duration
}

// minReserve is the smallest allowed reserve. With less free space, the agent cannot replace its files.
const minReserve = 1 << 20

// minWorkFiles is the smallest allowed limit of open files. A training may fail to start with a lower limit.
const minWorkFiles = 4096

// Validate checks the settings; conf.Load calls it.
func (c Config) Validate() error {
	var errs []error
	if c.Data == "" {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_DATA", "must not be empty"))
	}
	errs = append(errs, c.validateSlurm()...)
	if c.CacheBytes < 0 {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_CACHE_BYTES", "must not be negative, got %d", c.CacheBytes))
	}
	if c.LogBytes < 0 {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_LOG_BYTES", "must not be negative, got %d", c.LogBytes))
	}
	if c.LogRate < 0 {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_LOG_RATE", "must not be negative, got %d", c.LogRate))
	}
	if c.WorkFiles != 0 && c.WorkFiles < minWorkFiles {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_WORK_FILES", "must be 0 or at least %d, got %d", minWorkFiles, c.WorkFiles))
	}
	if c.ReserveBytes != 0 && c.ReserveBytes < minReserve {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_RESERVE_BYTES", "must be 0 or at least %d, got %d", minReserve, c.ReserveBytes))
	}
	if c.WorkDisk != 0 && c.WorkDisk < host.MinDisk {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_WORK_DISK_BYTES", "must be 0 or at least %d, got %d", host.MinDisk, c.WorkDisk))
	}
	if c.EnvBytes < 0 {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_ENVIRONMENT_BYTES", "must not be negative, got %d", c.EnvBytes))
	}
	if c.WheelBytes < 0 {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_WHEEL_BYTES", "must not be negative, got %d", c.WheelBytes))
	}
	if c.Isolation != isolationRequired && c.Isolation != isolationNone {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_ISOLATION", "must be required or none, got %q", c.Isolation))
	}
	if _, err := boundary.ParseUsers(cmp.Or(c.WorkUsers, defaultWorkUsers)); err != nil {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_WORK_USERS", "%s", err.Error()))
	}
	for _, path := range c.workPaths() {
		if !filepath.IsAbs(path) || boundary.Contains(path, c.Data) {
			errs = append(errs, conf.Errorf("SERVICE_AGENT_WORK_PATHS", "must contain only absolute paths outside of the data folder, got %q", path))
		}
	}
	if _, err := c.pythons(); err != nil {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_PYTHONS", "%s", err.Error()))
	}
	if _, err := c.reservedPorts(); err != nil {
		errs = append(errs, conf.Errorf("SERVICE_AGENT_PROTECTED_PORTS", "%s", err.Error()))
	}
	for name, list := range map[string]string{"SERVICE_AGENT_WORK_REACH": c.WorkReach, "SERVICE_AGENT_CLOSED_REACH": c.ClosedReach} {
		for _, address := range words(list) {
			if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
				errs = append(errs, conf.Errorf(name, "must contain addresses of the form host:port, got %q", address))
			}
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

// CheckPrivate returns an error if works could see the data folder or a folder of the program that embeds the agent.
func (c Config) CheckPrivate() error {
	if c.Isolation == isolationNone {
		return nil // Works without isolation see everything.
	}
	return boundary.CheckPrivate(append([]string{c.Data}, c.Private...), c.workPaths(), "SERVICE_AGENT_WORK_PATHS")
}

// maxPythons is the maximum number of interpreters that a node offers.
const maxPythons = 64

// pythons returns the paths in Pythons by name.
func (c Config) pythons() (map[string]string, error) {
	form := regexp.MustCompile(`^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$`)
	found := map[string]string{}
	for _, word := range words(c.Pythons) {
		name, path, ok := strings.Cut(strings.TrimSpace(word), "=")
		switch {
		case !ok || !form.MatchString(name):
			return nil, fmt.Errorf("must contain entries of the form name=/path/to/python; a name has 1 to 64 lower-case letters, digits and any of . _ -; got %q", word)
		case !filepath.IsAbs(path) || boundary.Contains(c.Data, path):
			return nil, fmt.Errorf("must contain only absolute paths outside of the data folder, got %q", word)
		case found[name] != "":
			return nil, fmt.Errorf("contains the name %q twice", name)
		case len(found) == maxPythons:
			return nil, fmt.Errorf("contains more than %d interpreters", maxPythons)
		}
		found[name] = filepath.Clean(path)
	}
	return found, nil
}

// workPaths returns the setting WorkPaths as a list.
func (c Config) workPaths() []string { return words(c.WorkPaths) }

// words returns the parts of a comma-separated list.
func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// reservedPorts returns the ports in KeptPorts and, if RelayListen is set, the port of the relay.
func (c Config) reservedPorts() ([]uint16, error) {
	var ports []uint16
	for _, text := range words(c.KeptPorts) {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return nil, fmt.Errorf("%q is not a port between 1 and 65535", text)
		}
		ports = append(ports, uint16(port))
	}
	if _, text, err := net.SplitHostPort(c.RelayListen); err == nil {
		if port, err := strconv.ParseUint(text, 10, 16); err == nil && port != 0 {
			ports = append(ports, uint16(port))
		}
	}
	return ports, nil
}
