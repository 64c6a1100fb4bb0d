package agent

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/agent/controlplane"
	"github.com/signalbox-dev/signalbox/agent/engineport"
	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/logship"
	"github.com/signalbox-dev/signalbox/agent/slurm"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Deps are the dependencies of an agent.
type Deps struct {
	// Joiner sends the join request: controlplane.OverHTTP or controlplane.InMemory.
	Joiner controlplane.Joiner
	// Token returns a join token. It is called only if the agent has not joined a fleet. If Token is nil, the
	// agent uses Config.JoinToken.
	Token func(ctx context.Context) (secret.String, error)
	// Dial connects to the control plane's agent listener with the identity of the given node. It uses the function
	// that controlplane.DialTLS returns, or an in-process network.
	Dial func(controlplane.Node) (*grpc.ClientConn, error)
	// HTTP downloads objects and delivers logs. If it is nil, the agent uses a client that cancels stalled downloads.
	HTTP *http.Client
	// SDK is the source tree of the Python reporter.
	SDK   fs.FS
	Clock clock.Clock
	Rand  io.Reader
	// Jitter returns a number in [0, 1).
	Jitter func() float64
	Log    *slog.Logger
	// Meter records metrics; nil records none.
	Meter metric.MeterProvider
}

// Agent is the host agent. New starts nothing.
type Agent struct {
	cfg    Config
	log    *slog.Logger
	folder *folder
	host   *host.Host
	link   *controlplane.Link
	// relay makes the engines reachable from other hosts; nil if Config.RelayListen is empty.
	relay *engineport.Relay
	// cluster runs attempts; nil if they run on this machine.
	cluster *slurm.Runner
	// disk guards the disk of the data folder; nil if Config.ReserveBytes is 0.
	disk  *disk
	clock clock.Clock
	// restricted records 1 if the network access of works is restricted, and 0 otherwise.
	restricted metric.Int64Gauge
}

// New creates an agent for its data folder and reads the state that an earlier agent left there. It locks the folder.
// Run, Join and Close release the lock when they return. New returns ErrInUse if another agent holds the lock.
func New(cfg Config, d Deps) (*Agent, error) {
	if len(cfg.Exec) == 0 {
		return nil, errors.New("agent: Config.Exec is empty; it must be the command line that runs the shim")
	}
	data, err := filepath.Abs(cfg.Data)
	if err != nil {
		return nil, fmt.Errorf("agent: resolve the data folder: %w", err)
	}
	cfg.Data = data
	if err := cfg.CheckPrivate(); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	if d.HTTP == nil {
		d.HTTP = newHTTP(stallAfter)
	}
	incarnation := make([]byte, 16)
	if _, err := io.ReadFull(d.Rand, incarnation); err != nil {
		return nil, fmt.Errorf("agent: generate the agent's incarnation id: %w", err)
	}
	held, err := openFolder(cfg.Data, d.Clock)
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	a := &Agent{cfg: cfg, log: d.Log, folder: held, clock: d.Clock}
	if err := a.build(d, hex.EncodeToString(incarnation)); err != nil {
		return nil, fmt.Errorf("agent: %w", errors.Join(err, held.close()))
	}
	return a, nil
}

// build creates the parts of the agent. The caller holds the lock on the folder.
func (a *Agent) build(d Deps, incarnation string) (err error) {
	cfg := a.cfg
	// The host needs the link for downloads, and the link needs the host's properties. The link is therefore set later.
	objects := &lateLink{}
	users, err := boundary.ParseUsers(cmp.Or(cfg.WorkUsers, defaultWorkUsers))
	if err != nil {
		return fmt.Errorf("parse SERVICE_AGENT_WORK_USERS: %w", err)
	}
	memory, err := machineMemory()
	if err != nil {
		return err
	}
	freed, err := newFreed(d.Meter)
	if err != nil {
		return err
	}
	ports, err := cfg.reservedPorts()
	if err != nil {
		return fmt.Errorf("parse SERVICE_AGENT_PROTECTED_PORTS: %w", err)
	}
	pythons, err := cfg.pythons()
	if err != nil {
		return fmt.Errorf("parse SERVICE_AGENT_PYTHONS: %w", err)
	}
	works := host.Config{
		Data: cfg.Data, Private: cfg.Private, Environments: cfg.Environments, Exec: cfg.Exec, CacheBytes: cfg.CacheBytes, EnvironmentBytes: cfg.EnvBytes,
		WheelBytes: cfg.WheelBytes, Node: cfg.Hostname,
		Environ: cfg.Environ, ProbeInterval: cfg.ProbeInterval,
		Isolate: cfg.Isolation != isolationNone, WorkUsers: users, WorkPaths: cfg.workPaths(), Pythons: pythons,
		RelaysEngines: cfg.RelayListen != "", ReservedPorts: ports, WorkReach: words(cfg.WorkReach), ClosedReach: words(cfg.ClosedReach),
		WorkAvoid: words(cfg.WorkAvoid), ControlPlane: a.controlPlane,
		LogBounds: logship.Bounds{Bytes: cfg.LogBytes, Rate: cfg.LogRate}, Memory: memory, WorkDisk: cfg.WorkDisk, WorkFiles: cfg.WorkFiles,
	}
	deps := host.Deps{
		Downloader: objects, Tokens: objects, HTTP: d.HTTP, SDK: d.SDK, Clock: d.Clock, Rand: d.Rand, Jitter: d.Jitter, Log: d.Log, Freed: freed,
	}
	if err := a.openCluster(&works, &deps, d); err != nil {
		return err
	}
	if a.host, err = host.New(works, deps); err != nil {
		return err
	}
	retry := clock.Backoff{Base: 200 * time.Millisecond, Max: 5 * time.Second, Jitter: d.Jitter}
	a.link = controlplane.New(controlplane.Deps{
		Membership: controlplane.Membership{
			Dir: filepath.Join(cfg.Data, "node"), Joiner: d.Joiner, Token: tokenOf(cfg, d), Hostname: cfg.Hostname,
			Inventory: takeInventory(cfg.Version, a.host.Limits(), a.countGPUs(), memory), Clock: d.Clock, Backoff: retry, Log: d.Log,
		},
		Dial: d.Dial, HTTP: d.HTTP, Clock: d.Clock, Incarnation: incarnation,
		Drivers: a.drivers(), Cluster: a.reported(), Boundary: a.boundary, Pythons: a.host.Pythons, Backoff: retry, Log: d.Log,
	})
	objects.Link = a.link
	if a.restricted, err = newRestricted(d.Meter); err != nil {
		return err
	}
	if err := a.guardDisk(d); err != nil {
		return err
	}
	if cfg.RelayListen != "" {
		a.relay = engineport.New(relayConfig(cfg, a.host.Relayed), a.host, nodeIdentity(filepath.Join(cfg.Data, "node")), d.Log)
	}
	return nil
}

// guardDisk creates the guard of the data folder's disk. Without a reserve, there is no guard, so guardDisk itself
// continues the works that an earlier agent with a reserve has frozen.
func (a *Agent) guardDisk(d Deps) (err error) {
	if a.cfg.ReserveBytes == 0 {
		_, err = thawAll(worksIn(a.cfg.Data))
		return err
	}
	if a.disk, err = newDisk(a.cfg.Data, a.cfg.ReserveBytes, d.Log, d.Meter); err != nil {
		return err
	}
	return a.disk.report(a.host.SetFrozen)
}

// controlPlane returns the addresses at which the agent reaches the control plane.
func (a *Agent) controlPlane() []string {
	var all []string
	if n, err := controlplane.Load(filepath.Join(a.cfg.Data, "node")); err == nil && n.Address != "" {
		all = append(all, n.Address)
	}
	if address := boundary.HostOf(a.cfg.Server); address != "" {
		all = append(all, address)
	}
	return all
}

// boundary returns how this node isolates works. It waits until the host has determined the kind of isolation.
func (a *Agent) boundary(ctx context.Context) (*jobsv1.NodeBoundary, error) {
	r, err := a.host.Boundary(ctx)
	if err != nil {
		return nil, err
	}
	restricted := int64(0)
	if r.NetworkProblem == "" {
		restricted = 1
	}
	a.restricted.Record(ctx, restricted)
	return boundaryToProto(r), nil
}

func relayConfig(cfg Config, opened func(executor.Key, string)) engineport.Config {
	host := cfg.RelayHost
	if host == "" {
		host = cfg.Hostname
	}
	return engineport.Config{Listen: cfg.RelayListen, Host: host, Opened: opened}
}

// nodeIdentity returns a function that loads the certificate that the link has stored.
func nodeIdentity(dir string) func() (pki.Source, error) {
	return func() (pki.Source, error) {
		n, err := controlplane.Load(dir)
		if err != nil {
			return nil, fmt.Errorf("load the node's certificate: %w", err)
		}
		return n.Source()
	}
}

// lateLink breaks the dependency cycle between host and link: build sets Link after it has created both.
type lateLink struct{ *controlplane.Link }

func tokenOf(cfg Config, d Deps) func(context.Context) (secret.String, error) {
	if d.Token != nil {
		return d.Token
	}
	return func(context.Context) (secret.String, error) {
		if cfg.JoinToken.IsZero() {
			return secret.String{}, errors.New("this agent has not joined a fleet yet; set SERVICE_AGENT_JOIN_TOKEN")
		}
		return cfg.JoinToken, nil
	}
}

// Join sends a single request to join the fleet and then releases the data folder. Run also joins if necessary, so call
// either Join or Run.
func (a *Agent) Join(ctx context.Context) (n controlplane.Node, err error) {
	defer func() { err = errors.Join(err, a.folder.close()) }()
	return a.link.Join(ctx)
}

// Run runs the agent until ctx ends and then releases the data folder. The processes of works and engines keep running
// under their shims; to end them, call Shutdown with stopWorks before ctx ends. If the control plane has removed the
// node, Run ends the processes, because the work continues elsewhere, and returns controlplane.ErrRemoved.
func (a *Agent) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, a.folder.close()) }()
	var works executor.Executor = a.host
	workers := []process.Worker{{Name: "executor", Run: a.host.Run}}
	if a.relay != nil {
		works = a.relay
		workers = append(workers, process.Worker{Name: "relay", Run: a.relay.Run})
	}
	if a.disk != nil {
		workers = append(workers, process.Worker{Name: "disk", Run: func(ctx context.Context) error { return a.disk.Run(ctx, a.clock) }})
	}
	if a.cluster != nil {
		workers = append(workers, process.Worker{Name: "slurm", Run: a.cluster.Run})
	}
	workers = append(workers, process.Worker{Name: "link", Run: func(ctx context.Context) error { return a.connect(ctx, works) }})
	return process.Group(ctx, workers...)
}

// removedTime is the maximum time for ending the processes of a removed node.
const removedTime = 10 * time.Second

func (a *Agent) connect(ctx context.Context, works executor.Executor) error {
	err := a.link.Run(ctx, works)
	if !errors.Is(err, controlplane.ErrRemoved) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, removedTime)
	defer cancel()
	return errors.Join(err, a.host.Shutdown(ctx, true))
}

// Close releases the data folder of an agent whose Run and Join are never called. After Run or Join it does nothing.
func (a *Agent) Close() error { return a.folder.close() }

// flushTime is the maximum time that Shutdown spends on sending the last observations.
const flushTime = 300 * time.Millisecond

// Shutdown leaves the works running under their shims if stopWorks is false; the next agent then adopts them. If
// stopWorks is true, Shutdown ends attempts and engines within about two seconds and reports their end to the control
// plane if it is reachable. Call Shutdown while Run is still running, and cancel the context of Run afterwards.
func (a *Agent) Shutdown(ctx context.Context, stopWorks bool) error {
	err := a.host.Shutdown(ctx, stopWorks)
	if !stopWorks {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	if flushed := a.link.Flush(ctx); flushed != nil {
		a.log.InfoContext(ctx, "cannot send the last observations", "error", flushed.Error())
	}
	return err
}

// Worker returns the agent as a worker of a process. The worker's Stop calls stopWorks with the context of Stop and
// passes the result to Shutdown.
func (a *Agent) Worker(stopWorks func(context.Context) bool) process.Worker {
	return process.Worker{
		Name: "agent", Run: a.Run,
		Stop: func(ctx context.Context) error { return a.Shutdown(ctx, stopWorks(ctx)) },
	}
}
