package agent

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/agent/controlplane"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/process"
	pysdk "github.com/signalbox-dev/signalbox/sdk/python"
)

// Process holds the command line, environment and standard streams of the process.
type Process struct {
	Args     []string
	Settings conf.Lookuper
	Environ  []string
	In       io.Reader // read only if --join-token-file is -
	Out, Err io.Writer
	Version  string
}

type settings struct {
	Agent     Config
	LogLevel  string `env:"SERVICE_LOG_LEVEL, default=info" doc:"debug, info, warn or error"`
	LogFormat string `env:"SERVICE_LOG_FORMAT, default=json" doc:"json or text"`
}

const (
	commandRun  = "run"
	commandJoin = "join"
)

// Run runs the agent until the process receives a signal or the agent fails. With --print-config it only
// prints the settings.
func (p Process) Run() error {
	ctx := context.Background()
	s, a, o, err := p.open(ctx, commandRun)
	if err != nil || a == nil {
		return err
	}
	signals, stop := process.Signals()
	defer stop()
	stopWorks := func(context.Context) bool { return s.Agent.StopWorks }
	h := process.Host{Log: o.Log, Signals: signals, Workers: []process.Worker{a.Worker(stopWorks)}}
	o.Log.InfoContext(ctx, "starting the agent", "data", s.Agent.Data, "server", s.Agent.Server)
	return errors.Join(h.Run(ctx), o.Shutdown(ctx))
}

// open parses the command line, loads the settings and creates the agent. With --print-config it only
// prints the settings and returns no agent.
func (p Process) open(ctx context.Context, command string) (s settings, a *Agent, o *obs.Obs, err error) {
	from, printOnly, err := p.flags(command)
	if err != nil {
		return s, nil, nil, err
	}
	loaded, err := conf.Load(ctx, from, &s)
	if err != nil {
		return s, nil, nil, err
	}
	if printOnly {
		return s, nil, nil, conf.Print(p.Out, loaded)
	}
	if command == commandJoin && s.Agent.Server == "" {
		return s, nil, nil, errors.New("--server is not set; set it to the URL of the gateway")
	}
	o, err = obs.Setup(ctx, obs.Config{Service: "agent", Version: p.Version, LogLevel: s.LogLevel, LogFormat: s.LogFormat}, p.Err)
	if err != nil {
		return s, nil, nil, err
	}
	for _, warning := range loaded.Warnings {
		o.Log.WarnContext(ctx, warning)
	}
	if a, err = p.agent(ctx, s.Agent, o); err != nil {
		return s, nil, nil, errors.Join(err, o.Shutdown(ctx))
	}
	return s, a, o, nil
}

// agent adds Exec, Environ, Version and the host name to the settings and creates the agent.
func (p Process) agent(ctx context.Context, cfg Config, o *obs.Obs) (*Agent, error) {
	self, err := shim.Self()
	if err != nil {
		return nil, err
	}
	cfg.Exec, cfg.Environ, cfg.Version = self, p.Environ, p.Version
	if cfg.Hostname == "" {
		if cfg.Hostname, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("read the machine's host name: %w", err)
		}
	}
	sdk, err := pysdk.Files()
	if err != nil {
		return nil, fmt.Errorf("open the Python reporter: %w", err)
	}
	if err := FreeSpace(ctx, cfg, o.Log); err != nil {
		return nil, err
	}
	client := newHTTP(stallAfter)
	return New(cfg, Deps{ //nolint:contextcheck // New only logs without it
		Joiner: controlplane.OverHTTP{Server: cfg.Server, Client: client}, Dial: controlplane.DialTLS(clock.Real()),
		HTTP: client, SDK: sdk, Clock: clock.Real(), Rand: rand.Reader, Jitter: mathrand.Float64, Log: o.Log, Meter: o.Meter,
	})
}

// flags parses the command's flags; they override the environment.
func (p Process) flags(command string) (from conf.Lookuper, printOnly bool, err error) {
	set := map[string]string{}
	flags := flag.NewFlagSet("signalbox-agent "+command, flag.ContinueOnError)
	flags.SetOutput(p.Err)
	for name, f := range map[string]struct{ variable, usage string }{
		"server":          {"SERVICE_AGENT_SERVER", "URL of the gateway"},
		"join-token-file": {joinTokenFile, "file that contains the fleet's join token; - reads it from standard input"},
		"data":            {"SERVICE_AGENT_DATA", "data folder of the agent"},
	} {
		flags.Func(name, f.usage, func(value string) error {
			set[f.variable] = value
			return nil
		})
	}
	if command == commandRun {
		flags.BoolFunc("stop-works", "end attempts and engines when the agent stops", func(value string) error {
			on, err := strconv.ParseBool(value)
			set["SERVICE_AGENT_STOP_WORKS"] = strconv.FormatBool(on)
			return err
		})
	}
	flags.BoolVar(&printOnly, "print-config", false, "print all settings with secrets redacted, and exit")
	if err := flags.Parse(p.Args); err != nil {
		return from, false, fmt.Errorf("parse the flags: %w", err)
	}
	if flags.NArg() > 0 {
		return from, false, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if set[joinTokenFile] == "-" {
		delete(set, joinTokenFile)
		if set["SERVICE_AGENT_JOIN_TOKEN"], err = p.readJoinToken(); err != nil {
			return from, false, err
		}
	}
	return p.Settings.With("flag", set), printOnly, nil
}

// joinTokenFile is the setting that names the file with the join token.
const joinTokenFile = "SERVICE_AGENT_JOIN_TOKEN_FILE"

// maxJoinToken is the maximum length of a join token on standard input.
const maxJoinToken = 1 << 10

// readJoinToken reads the first line of standard input.
func (p Process) readJoinToken() (string, error) {
	line, err := bufio.NewReader(io.LimitReader(p.In, maxJoinToken)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the join token from standard input: %w", err)
	}
	if line = strings.TrimSpace(line); line == "" {
		return "", errors.New("--join-token-file -: standard input is empty; pass the join token as its first line")
	}
	return line, nil
}
