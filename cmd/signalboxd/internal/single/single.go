// Package single runs all of Signalbox in one process on one machine: the five services over an
// in-memory network, the gateway and an agent, with a Postgres that it finds and runs itself. It is the
// same code as the separate processes and promises the same; nothing in it decides anything but where
// things are.
package single

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
	"github.com/signalbox-dev/signalbox/platform/run"
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
	// The flag --data stands for it, and --listen for the gateway's SERVICE_LISTEN.
	Data      string   `env:"SERVICE_DATA, default=.signalbox/data" doc:"folder that keeps everything"`
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

// Validate names what nothing can be served from: the empty path would be the folder that one stands in,
// and the empty address a free port on every network.
func (s *Settings) Validate() error {
	var errs []error
	if strings.TrimSpace(s.Data) == "" {
		errs = append(errs, conf.Faultf("SERVICE_DATA", "must name a folder (--data)"))
	}
	if s.Gateway.Listen.Addr == "" {
		errs = append(errs, conf.Faultf("SERVICE_LISTEN", "must be an address as host:port (--listen)"))
	}
	if listen := s.Gateway.Listen.Addr; s.Agents.remote() && s.Common.Public.URL == "" && (unspecified(listen) || loopback(listen)) {
		errs = append(errs, conf.Faultf("SERVICE_PUBLIC_URL", "must be set: agents of other hosts join, fetch and report there, and cannot by %q", listen))
	}
	return errors.Join(errs...)
}

// Postgres says which server is used.
type Postgres struct {
	AdminURL secret.String `env:"DATABASE_ADMIN_URL" doc:"a server to use instead of running one: URL of a role that may create databases and roles"`
	Database string        `env:"DATABASE_NAME, default=signalbox" doc:"name of the database"`
	Bin      string        `env:"POSTGRES_BIN" doc:"folder of the programs postgres and initdb; searched where empty"`
	CacheDir string        `env:"POSTGRES_CACHE, default=.cache/postgres" doc:"where make demo puts a server that the machine lacks"`
}

// Options are what the command line says beside the settings.
type Options struct {
	ReadyFile   string
	PrintConfig bool
	Flags       map[string]string // setting to value
	Out, Log    io.Writer
	// Exec starts this program's shim.
	Exec []string
}

// defaultListen is where one machine serves unless told otherwise.
const defaultListen = "127.0.0.1:8080"

// Run serves until it is told to stop.
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
	closers := &run.Closers{}
	defer func() {
		// Who kills waits for nothing, not for a database that hangs either; it goes with this process.
		if !errors.Is(err, run.ErrKilled) {
			boot.Close(ctx, closers)
		}
	}()
	h, err := open(ctx, s, loaded, o, closers)
	if err != nil {
		return err
	}
	if err := h.forget(); err != nil {
		return err
	}
	workers, err := h.build(ctx)
	if err != nil {
		return err
	}
	signals, stop := run.Signals()
	defer stop()
	host := &run.Host{
		Log: h.obs.Log, Signals: signals, Workers: workers, Closers: closers,
		ReadyTimeout: s.Common.Stop.ReadyTimeout, StopTimeout: s.Common.Stop.StopTimeout,
		Ready: func(ctx context.Context) error { return h.announce(ctx) },
	}
	common := s.Common
	if err := boot.Attend(ctx, host, common.Obs.AdminListen, h.obs, h.clock, loaded, common.Stop.DrainDelay); err != nil {
		return err
	}
	return host.Run(ctx)
}

// ownAgent takes out the settings that only an agent of its own has: the one in this process is told by
// it. Whoever set one of them is warned.
func ownAgent(loaded *conf.Loaded) {
	own := []string{"SERVICE_AGENT_SERVER", "SERVICE_AGENT_JOIN_TOKEN", "SERVICE_AGENT_DATA", "SERVICE_AGENT_STOP_WORKS"}
	loaded.Settings = slices.DeleteFunc(loaded.Settings, func(s conf.Setting) bool {
		if !slices.Contains(own, s.Name) {
			return false
		}
		if s.Source != conf.SourceDefault {
			loaded.Warnings = append(loaded.Warnings, s.Name+" is for an agent of its own; the one of signalboxd keeps to the data folder")
		}
		return true
	})
}

// ready is what the ready file says. The address is the bound one, also where clients come by another: who
// asked for a free port learns it here only.
type ready struct {
	Address string `json:"address"`
	PID     int    `json:"pid"`
	Version string `json:"version"`
	Data    string `json:"data"`
}

// showFirst shows the first login as soon as it is made: a start that fails later would take it along.
func (h *house) showFirst() {
	if h.first != nil && !h.first.Given {
		fmt.Fprintf(h.options.Out, "\n  First login (shown once): %s / %s\n  Address: %s\n\n", h.first.Username, h.first.Password.Reveal(), h.url())
	}
}

// forget takes away the ready file: of an earlier start that was killed, which whoever waits for this one
// would believe, and at the end.
func (h *house) forget() error {
	if err := os.Remove(h.options.ReadyFile); h.options.ReadyFile != "" && err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("take away the ready file: %w", err)
	}
	return nil
}

// announce tells where it serves, in the folder and in the ready file, which is there whole or not at all.
func (h *house) announce(ctx context.Context) error {
	h.obs.Log.InfoContext(ctx, "serving", "address", h.url(), "listen", h.listener.Addr().String(), "agents", h.agentAddress(), "data", h.folder.path, "version", version.Server())
	if err := h.folder.hold.Tell(h.url()); err != nil {
		return err
	}
	if h.options.ReadyFile == "" {
		return nil
	}
	raw, err := json.Marshal(ready{Address: h.bound(), PID: os.Getpid(), Version: version.Server(), Data: h.folder.path})
	if err != nil {
		return fmt.Errorf("encode the ready file: %w", err)
	}
	tmp := h.options.ReadyFile + ".new"
	if err := os.MkdirAll(filepath.Dir(tmp), 0o750); err != nil {
		return fmt.Errorf("make the ready file's folder: %w", err)
	}
	if err := os.WriteFile(tmp, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the ready file: %w", err)
	}
	if err := os.Rename(tmp, h.options.ReadyFile); err != nil {
		return fmt.Errorf("write the ready file: %w", err)
	}
	h.closers.Add("ready file", func(context.Context) error { return h.forget() })
	return nil
}

// url is how clients reach the process.
func (h *house) url() string {
	if h.settings.Common.Public.URL != "" {
		return h.settings.Common.Public.URL
	}
	return h.bound()
}

func (h *house) bound() string { return "http://" + dialable(h.listener.Addr()) }

// dialable turns a bound address into one that a client can use.
func dialable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
}
