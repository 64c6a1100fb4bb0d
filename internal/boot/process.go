package boot

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/internal/version"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob/objectstore"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/httpguard"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Process is a process that runs one service. It has three sets of settings: those that all processes share, those
// that each service has under its own prefix, and the service's Config.
type Process struct {
	*Env

	Settings Settings
	Own      ServiceSettings
	Closers  *process.Closers
	Wire     *rpc.TCPNetwork
	Objects  objectstore.Opened
	Loaded   *conf.Loaded
}

// Spec describes the service that Main runs.
type Spec struct {
	Name string
	// Config is a pointer to the service's own settings.
	Config any
	// Migrations opens the migrations of the service's schema; nil for a process without a schema.
	Migrations func() (fs.FS, error)
	// CallsOnly means that the process has no schema, and no listener for other services.
	CallsOnly bool
	// TakesRequests means that the process calls ServeBoth, and TakesAgents that it accepts agents.
	TakesRequests, TakesAgents bool
	// Build creates the service and returns the workers of the process.
	Build func(ctx context.Context, p *Process) ([]process.Worker, error)
}

// Main runs the process of a service. It returns if the process stops without an error and otherwise exits with a
// non-zero status.
func Main(spec Spec) {
	err := realMain(context.Background(), spec, conf.OS(), os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case errors.Is(err, process.ErrKilled):
		os.Exit(1) // a killed process must not block on writing to a full pipe
	default:
		fmt.Fprintf(os.Stderr, "%sd: %v\n", spec.Name, err)
		os.Exit(1)
	}
}

// commandMigrate is the command-line argument with which the process migrates the schema to the version of this program
// and exits.
const commandMigrate = "migrate"

func realMain(ctx context.Context, spec Spec, from conf.Lookuper, args []string, out, errOut io.Writer) error {
	flags := flag.NewFlagSet(spec.Name+"d", flag.ContinueOnError)
	flags.SetOutput(errOut)
	printConfig := flags.Bool("print-config", false, "show every setting, with secrets redacted, and exit")
	showVersion := flags.Bool("version", false, "show the version and exit")
	if err := flags.Parse(args); err != nil {
		return flag.ErrHelp
	}
	if *showVersion {
		fmt.Fprintln(out, version.Server())
		return nil
	}
	command := flags.Arg(0)
	if flags.NArg() > 1 || (command != "" && command != commandMigrate && command != commandHealth) {
		return fmt.Errorf("unknown command %q; want no command, %s or %s", strings.Join(flags.Args(), " "), commandMigrate, commandHealth)
	}
	if command == commandHealth {
		return checkHealth(ctx, from, out)
	}
	p := &Process{Closers: &process.Closers{}}
	loaded, err := p.load(ctx, spec, from)
	if err != nil {
		return err
	}
	p.Loaded = loaded
	if *printConfig {
		return conf.Print(out, loaded)
	}
	if command == commandMigrate {
		return p.migrate(ctx, spec)
	}
	return p.serve(ctx, spec, errOut)
}

// load reads the settings that all processes share, the settings under the service's prefix that the process uses, and
// the service's Config. It reports all invalid settings together, so that they can be corrected at once.
func (p *Process) load(ctx context.Context, spec Spec, from conf.Lookuper) (*conf.Loaded, error) {
	parts := append([]conf.Part{{Config: &p.Settings}}, p.Own.parts(spec)...)
	return conf.LoadAll(ctx, from, append(parts, conf.Part{Config: spec.Config}), conf.Ignore("SERVICE_JOB_"))
}

func (p *Process) migrate(ctx context.Context, spec Spec) error {
	if spec.Migrations == nil {
		return fmt.Errorf("%s has no schema", spec.Name)
	}
	if p.Own.Postgres.OwnerURL.IsZero() {
		// The driver would connect to a server on this machine if the URL were empty.
		return fmt.Errorf("SERVICE_%s_DATABASE_OWNER_URL must be set", strings.ToUpper(spec.Name))
	}
	files, err := spec.Migrations()
	if err != nil {
		return fmt.Errorf("open the migrations: %w", err)
	}
	return migrate.Up(ctx, p.Own.Postgres.OwnerURL, spec.Name, files)
}

func (p *Process) serve(ctx context.Context, spec Spec, log io.Writer) (err error) {
	defer func() {
		// A killed process exits at once.
		if !errors.Is(err, process.ErrKilled) {
			Close(ctx, p.Closers)
		}
	}()
	if err := p.open(ctx, spec, log); err != nil {
		return err
	}
	if spec.Migrations != nil {
		if stopped, err := p.awaitRestore(ctx, spec); stopped || err != nil {
			return err
		}
	}
	workers, err := spec.Build(ctx, p)
	if err != nil {
		return err
	}
	signals, stop := process.Signals()
	defer stop()
	host := &process.Host{
		Log: p.Log, Signals: signals, Workers: workers, Closers: p.Closers,
		ReadyTimeout: p.Settings.Stop.ReadyTimeout, StopTimeout: p.Settings.Stop.StopTimeout,
		StopLimit: func(os.Signal) time.Duration { return p.Settings.Stop.Limit() },
		Ready: func(ctx context.Context) error {
			p.Log.InfoContext(ctx, "serving", "version", version.Server())
			return nil
		},
	}
	if err := AddAdmin(ctx, host, p.Settings.Obs.AdminListen, p.Obs, p.Clock, p.Loaded, p.Stop.DrainDelay); err != nil {
		return err
	}
	return host.Run(ctx)
}

// closeTimeout limits how long a failed start may take to close what it has opened.
const closeTimeout = 10 * time.Second

// Close closes what a failed start has opened. After Host.Run it does nothing, because Run has called the closers.
func Close(ctx context.Context, closers *process.Closers) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = closers.Close(ctx) // the error of the start is reported instead
}

// open creates the Env of the process from its settings.
func (p *Process) open(ctx context.Context, spec Spec, log io.Writer) error {
	o, err := obs.Setup(ctx, obs.Config{
		Service: spec.Name, Version: version.Server(), LogLevel: p.Settings.Obs.LogLevel,
		LogFormat: p.Settings.Obs.LogFormat, OTLPEndpoint: p.Settings.Obs.OTLPEndpoint,
	}, log)
	if err != nil {
		return fmt.Errorf("set up logs and traces: %w", err)
	}
	p.Closers.Add("telemetry", o.Shutdown)
	clk := clock.Real()
	if p.Wire, err = p.wire(clk, o); err != nil {
		return err
	}
	for _, w := range p.Loaded.Warnings {
		o.Log.WarnContext(ctx, "unused setting", "setting", w)
	}
	p.Env = NewEnv(spec.Name, o, clk, id.NewSource(clk, rand.Reader), p.Wire)
	p.Stop = p.Settings.Stop
	p.Ages = p.Settings.Ages()
	p.PublicURL = func() string { return p.Settings.Public.URL }
	if p.Settings.Public.URL == "" {
		return errors.New("SERVICE_PUBLIC_URL must be set if services run as separate processes")
	}
	if !p.Settings.Keyring.IsZero() {
		if p.Keyring, err = secret.ParseKeyring(p.Settings.Keyring); err != nil {
			return fmt.Errorf("parse SERVICE_KEYRING: %w", err)
		}
	}
	if p.Objects, err = p.OpenBlobs(p.Closers, p.Settings.Blob); err != nil {
		return err
	}
	if spec.Migrations == nil {
		return nil
	}
	if p.Sealing, err = OpenSealing(p.Settings.Audit); err != nil {
		return err
	}
	if p.Own.Postgres.URL.IsZero() {
		return fmt.Errorf("SERVICE_%s_DATABASE_URL must be set", strings.ToUpper(spec.Name))
	}
	return p.OpenPool(ctx, p.Closers, p.Own.Postgres, false)
}

func (p *Process) wire(clk clock.Clock, o *obs.Obs) (*rpc.TCPNetwork, error) {
	if !p.Settings.TLS.Enabled() {
		return nil, errors.New("SERVICE_TLS_CA, SERVICE_TLS_CERT and SERVICE_TLS_KEY must be set to the files of this service; `signalbox-setup certs` creates them")
	}
	files, err := pki.OpenFiles(p.Settings.TLS.Cert, p.Settings.TLS.Key, p.Settings.TLS.CA)
	if err != nil {
		return nil, fmt.Errorf("open the files of SERVICE_TLS_CERT, _KEY and _CA: %w", err)
	}
	peers, err := p.Settings.addresses()
	if err != nil {
		return nil, err
	}
	return rpc.TCP(rpc.TCPConfig{
		Identity: files, Listen: p.Own.Listen.Addr, ListenAgents: p.Own.Agents.Listen, Peers: peers,
		Client: rpc.ClientOptions{Clock: clk, Telemetry: rpc.Telemetry{Tracer: o.Tracer, Meter: o.Meter}},
	})
}

// ServeOn opens the process's own listeners and calls Serve with them.
func (p *Process) ServeOn(svc Service, keys authn.FetchKeys) ([]process.Worker, error) {
	listener, err := p.Wire.Listen(svc.Name())
	if err != nil {
		return nil, fmt.Errorf("listen for services: %w", err)
	}
	listeners := []*rpc.Listener{listener}
	if p.Own.Agents.Listen != "" {
		agents, err := p.Wire.ListenAgents(svc.Name())
		if err != nil {
			return nil, fmt.Errorf("listen for agents: %w", err)
		}
		listeners = append(listeners, agents)
	}
	return p.Serve(svc, keys, listeners...)
}

// NodeCA loads the internal CA, with which jobs signs the certificates of nodes.
func (p *Process) NodeCA() (NodeCA, error) {
	ca, err := pki.LoadCA(p.Own.Agents.CADir)
	if err != nil {
		return NodeCA{}, fmt.Errorf("load the CA from SERVICE_JOBS_CA_DIR: %w", err)
	}
	return NodeCA{CA: ca, Clock: p.Clock}, nil
}

// ServeBoth calls ServeOn and also serves the service's HTTP routes: to the gateway over mutual TLS and, if a public
// listener is set, to a load balancer over plain HTTP. When the process stops, both listeners refuse new requests and
// finish the running ones.
func (p *Process) ServeBoth(ctx context.Context, svc Service, keys authn.FetchKeys, handler http.Handler) ([]process.Worker, error) {
	workers, err := p.ServeOn(svc, keys) //nolint:contextcheck // the internal listeners take no context.
	if err != nil {
		return nil, err
	}
	if p.Own.Requests.Relayed == "" {
		return nil, fmt.Errorf("SERVICE_%s_HTTP_LISTEN must be set", strings.ToUpper(svc.Name()))
	}
	relayed, err := httpguard.Listen(ctx, p.Own.Requests.Relayed)
	if err != nil {
		return nil, fmt.Errorf("listen for the gateway: %w", err)
	}
	held := p.holding(svc, handler)
	workers = append(workers, held.worker(svc.Name()+".http", relayed, p.Wire.ServerTLS("gateway")))
	if p.Own.Requests.Public == "" {
		return workers, nil
	}
	open, err := httpguard.Listen(ctx, p.Own.Requests.Public)
	if err != nil {
		return nil, fmt.Errorf("open the public listener: %w", err)
	}
	return append(workers, held.worker(svc.Name()+".public", open, nil)), nil
}
