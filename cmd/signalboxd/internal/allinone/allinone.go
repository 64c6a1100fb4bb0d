// Package allinone runs all of Signalbox in one process on one machine: the five services over an in-memory network,
// the gateway and an agent. It also runs a Postgres server, unless the settings name an existing one. The parts are
// those of the separate processes and make the same promises; this package only decides where things are stored and
// how they are connected.
package allinone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/agent"
	"github.com/signalbox-dev/signalbox/gateway"
	"github.com/signalbox-dev/signalbox/internal/boot"
	"github.com/signalbox-dev/signalbox/internal/version"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth"
	"github.com/signalbox-dev/signalbox/services/inference"
	"github.com/signalbox-dev/signalbox/services/ingest"
	"github.com/signalbox-dev/signalbox/services/jobs"
	"github.com/signalbox-dev/signalbox/services/registry"
)

// Settings are all settings of the process.
type Settings struct {
	Common boot.Settings
	// The flag --data sets Data, and --listen sets the gateway's SERVICE_LISTEN.
	Data      string   `env:"SERVICE_DATA, default=.signalbox/data" doc:"folder for all data"`
	Postgres  Postgres `env:", prefix=SERVICE_"`
	Auth      auth.Config
	Jobs      jobs.Config
	Ingest    ingest.Config
	Registry  registry.Config
	Inference inference.Config
	Gateway   gateway.Config
	Agent     agent.Config
	Agents    Agents `env:", prefix=SERVICE_JOBS_AGENT_"`
}

// Validate rejects an empty data path, which would mean the working directory, and an empty address, which
// would mean a free port on every network. It requires a public URL if agents on other hosts could not reach the
// listener's address.
func (s *Settings) Validate() error {
	var errs []error
	if strings.TrimSpace(s.Data) == "" {
		errs = append(errs, conf.Errorf("SERVICE_DATA", "must name a folder (--data)"))
	}
	if s.Gateway.Listen.Addr == "" {
		errs = append(errs, conf.Errorf("SERVICE_LISTEN", "must be an address as host:port (--listen)"))
	}
	if listen := s.Gateway.Listen.Addr; s.Agents.remote() && s.Common.Public.URL == "" && (unspecified(listen) || loopback(listen)) {
		errs = append(errs, conf.Errorf("SERVICE_PUBLIC_URL", "must be set: agents on other hosts join, fetch and report at this URL and cannot reach %q", listen))
	}
	return errors.Join(errs...)
}

// Postgres selects the database server.
type Postgres struct {
	AdminURL secret.String `env:"DATABASE_ADMIN_URL" doc:"URL of an existing Postgres server, with a role that may create databases and roles; if empty, signalboxd runs its own server"`
	Database string        `env:"DATABASE_NAME, default=signalbox" doc:"name of the database"`
	Bin      string        `env:"POSTGRES_BIN" doc:"folder of the programs postgres and initdb; if empty, the usual places are searched"`
	CacheDir string        `env:"POSTGRES_CACHE, default=.cache/postgres" doc:"folder into which make demo downloads Postgres if the machine has none"`
}

// Options are the values of the command line, the outputs, and the command of the shim.
type Options struct {
	ReadyFile   string
	PrintConfig bool
	Flags       map[string]string // setting to value
	Out, Log    io.Writer
	// Exec is the command line that starts this program's shim.
	Exec []string
}

// defaultListen is the default of SERVICE_LISTEN.
const defaultListen = "127.0.0.1:8080"

// Run serves until ctx ends or a signal arrives. With PrintConfig it only prints the settings.
func Run(ctx context.Context, o Options) (err error) {
	s := &Settings{}
	s.Gateway.Listen.Addr = defaultListen
	loaded, err := conf.Load(ctx, conf.OS().With("flag", o.Flags), s, conf.Ignore("SERVICE_JOB_"))
	if err != nil {
		return err
	}
	ownAgent(loaded)
	if o.PrintConfig {
		return conf.Print(o.Out, loaded)
	}
	closers := &process.Closers{}
	defer func() {
		// After a second signal the process exits at once. It does not wait for a hanging database, which ends with the
		// process.
		if !errors.Is(err, process.ErrKilled) {
			boot.Close(ctx, closers)
		}
	}()
	d, err := open(ctx, s, loaded, o, closers)
	if err != nil {
		return err
	}
	if err := d.forget(); err != nil {
		return err
	}
	workers, err := d.build(ctx)
	if errors.Is(err, errStopped) {
		return nil
	}
	if err != nil {
		return err
	}
	signals, stop := process.Signals()
	defer stop()
	host := &process.Host{
		Log: d.obs.Log, Signals: signals, Workers: workers, Closers: closers,
		ReadyTimeout: s.Common.Stop.ReadyTimeout, StopTimeout: s.Common.Stop.StopTimeout, StopLimit: d.stopLimit,
		Ready: func(ctx context.Context) error { return d.announce(ctx) },
	}
	common := s.Common
	if err := boot.AddAdmin(ctx, host, common.Obs.AdminListen, d.obs, d.clock, loaded, common.Stop.DrainDelay); err != nil {
		return err
	}
	return host.Run(ctx)
}

// ownAgent removes the settings that only a separate agent reads: this process sets them for its own agent. It adds a
// warning for each of these settings that is set.
func ownAgent(loaded *conf.Loaded) {
	own := []string{"SERVICE_AGENT_SERVER", "SERVICE_AGENT_JOIN_TOKEN", "SERVICE_AGENT_DATA", "SERVICE_AGENT_STOP_WORKS", "SERVICE_AGENT_RUNS_ON", "SERVICE_AGENT_SLURM_FOLDER"}
	loaded.Settings = slices.DeleteFunc(loaded.Settings, func(s conf.Setting) bool {
		if !slices.Contains(own, s.Name) {
			return false
		}
		if s.Source != conf.SourceDefault {
			loaded.Warnings = append(loaded.Warnings, s.Name+" is ignored: only a separate agent reads it; the agent in signalboxd uses the data folder and runs works on this machine")
		}
		return true
	})
}

// ready is the content of the ready file. The address is the bound one, even if clients use another, so that the
// program that started this process learns which port was picked for port 0.
type ready struct {
	Address string `json:"address"`
	PID     int    `json:"pid"`
	Version string `json:"version"`
	Data    string `json:"data"`
}

// showFirst shows the first login unless the password was configured. It must be called as soon as the login exists: if
// this start failed before the call, no later start would show the login.
func (d *daemon) showFirst() {
	if d.first != nil && !d.first.Given {
		fmt.Fprintf(d.options.Out, "\n  First login (shown once): %s / %s\n  Address: %s\n\n", d.first.Username, d.first.Password.Reveal(), d.url())
	}
}

// forget removes the ready file. Run calls it at the end, and also at the start, because a file that a killed process
// left behind would make this process look ready.
func (d *daemon) forget() error {
	if err := os.Remove(d.options.ReadyFile); d.options.ReadyFile != "" && err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the ready file: %w", err)
	}
	return nil
}

// announce writes the address to the log, the folder's lock and the ready file. The ready file is replaced
// atomically, so it is never seen half-written.
func (d *daemon) announce(ctx context.Context) error {
	d.obs.Log.InfoContext(ctx, "serving", "address", d.url(), "listen", d.listener.Addr().String(), "agents", d.agentAddress(), "data", d.folder.path, "version", version.Server())
	if err := d.folder.hold.SetAddress(d.url()); err != nil {
		return err
	}
	d.showLink(ctx)
	if d.options.ReadyFile == "" {
		return nil
	}
	raw, err := json.Marshal(ready{Address: d.bound(), PID: os.Getpid(), Version: version.Server(), Data: d.folder.path})
	if err != nil {
		return fmt.Errorf("encode the ready file: %w", err)
	}
	tmp := d.options.ReadyFile + ".new"
	if err := os.MkdirAll(filepath.Dir(tmp), 0o750); err != nil {
		return fmt.Errorf("create the ready file's folder: %w", err)
	}
	if err := os.WriteFile(tmp, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the ready file: %w", err)
	}
	if err := os.Rename(tmp, d.options.ReadyFile); err != nil {
		return fmt.Errorf("rename the ready file: %w", err)
	}
	d.closers.Add("ready file", func(context.Context) error { return d.forget() })
	return nil
}

// url returns the URL at which clients reach the process.
func (d *daemon) url() string {
	if d.settings.Common.Public.URL != "" {
		return d.settings.Common.Public.URL
	}
	return d.bound()
}

func (d *daemon) bound() string { return "http://" + dialable(d.listener.Addr()) }

// dialable turns a bound address into one that a client can use.
func dialable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
}
