// Package host owns the executor of one machine. It downloads the inputs of a work, builds the work's
// Python environment, runs the work under a shim, ships its log and probes engines. It also delivers the
// reports that a killed attempt left behind. All state is in one folder on disk. After an agent was killed,
// the next agent therefore continues every work: nothing is started twice, and no exit status or log line
// is lost.
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/agent/engine"
	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/logship"
	"github.com/signalbox-dev/signalbox/agent/host/objcache"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Config is the configuration of a host executor.
type Config struct {
	// Data is the folder that contains all state. Environments is the folder of the Python environments;
	// Data/envs if empty.
	Data         string
	Environments string
	// Private are further folders that no work may see.
	Private []string
	// Exec is the command line that runs shim.Main.
	Exec []string
	// CacheBytes is the maximum size of the objects cached between works; 0 means no limit.
	CacheBytes int64
	// EnvironmentBytes is the size that all Python environments together should not exceed; 0 means no limit.
	EnvironmentBytes int64
	// WheelBytes is the size that all cached wheels together should not exceed; with 0, builds share no wheels.
	WheelBytes int64
	// FetchTimeout limits the retries of a download or of an ingest token request; 10 minutes if 0.
	FetchTimeout time.Duration
	// CollectTimeout limits the delivery of the rest of a log. It counts from the end of the work, even if the
	// agent is restarted; 15 minutes if 0.
	CollectTimeout time.Duration
	// ProbeInterval is the time between two probes of a ready engine; 10 seconds if 0.
	ProbeInterval time.Duration
	// If Isolate is true, each work runs inside a boundary. If the machine cannot do that, works are refused.
	Isolate bool
	// Node is the name of this node, which the lines of logs have; empty for none.
	Node string
	// LogBounds limits the log of each work.
	LogBounds logship.Bounds
	// WorkFiles is how many files the processes of a work may have open together; 0 means no limit.
	WorkFiles int64
	// Memory is the machine's memory in bytes. Attempts that request no limit get most of it, or no limit if Memory is 0.
	Memory int64
	// WorkDisk is the disk space of a work in bytes; if 0, an eighth of the free space that is not promised to other works. A work never gets more than half of that space.
	WorkDisk int64
	// WorkUsers are the user ids of works if the agent runs as root. No other user of the machine may have them.
	WorkUsers boundary.Users
	// WorkPaths are further paths that works may read; Pythons are the interpreters that the node offers, by name.
	WorkPaths []string
	Pythons   map[string]string
	// WorkReach are addresses, host:port, that works may reach in addition to the control plane's public listener.
	WorkReach []string
	// ClosedReach are addresses, host:port, that works that request no network may reach besides the public listener.
	ClosedReach []string
	// WorkAvoid are networks, hosts and addresses that works must not reach.
	WorkAvoid []string
	// ReservedPorts are TCP ports on which no work may listen: those of the control plane and of the agent on this machine.
	ReservedPorts []uint16
	// RelaysEngines reports whether other hosts reach engines through the agent. Leases of engines are then renewed only while
	// the relay responds, see Relayed.
	RelaysEngines bool
	// ControlPlane returns the addresses, host:port, at which the agent reaches the control plane. Works cannot reach
	// these hosts, except for the control plane's public listener. Nil means that there are no such addresses.
	ControlPlane func() []string
	// Environ is the environment of the agent's process. It has PATH and the user's settings for pip, uv and
	// proxies. Works receive none of it.
	Environ []string
}

// Deps are the dependencies of a host executor.
type Deps struct {
	Downloader executor.Downloader
	Tokens     executor.TokenMinter
	// HTTP delivers logs.
	HTTP *http.Client
	// Names looks up what works may reach; the resolver of the system if nil.
	Names  boundary.Resolver
	SDK    fs.FS
	Clock  clock.Clock
	Rand   io.Reader
	Jitter func() float64
	Log    *slog.Logger
	// Freed receives how many bytes were removed from a cache, `objects` or `environments`; Freed may be nil.
	Freed func(ctx context.Context, cache string, bytes int64)
	// Runner runs the processes of attempts elsewhere. If Runner is nil, they run on this machine. With a Runner, the
	// executor refuses engines and attempts without a description for a batch system.
	Runner Runner
}

// Host is the executor. New starts nothing; Run runs until its context ends.
type Host struct {
	cfg     Config
	deps    Deps
	control shim.Control
	objects *objcache.Store
	envs    *pyenv.Builder
	holder  boundary.Enforcer
	shipper *logship.Shipper
	prober  *engine.Prober
	retry   clock.Backoff
	restart clock.Backoff
	folders executor.GPUFolders

	changes  chan struct{}
	shutdown chan struct{}

	mu    sync.Mutex
	works map[executor.Key]*work
	// listed contains the keys of the works in the last list. gone contains the keys that Observed reports as gone.
	listed  map[executor.Key]bool
	gone    []executor.Key
	ctx     context.Context //nolint:containedctx // the context of Run, for works that Apply adds later
	keepers sync.WaitGroup
	down    bool
	frozen  map[string]bool // the names of the works whose processes are stopped

	// allotting is held while the disks of a work are created. Their size depends on the disks of other works.
	allotting sync.Mutex

	// lent contains the user ids of running builds.
	lent map[int]bool
	// tried is closed when the fields below are known, see Isolation and Network.
	tried         chan struct{}
	kind          boundary.Kind
	notIsolated   error
	net           boundary.NetworkKind
	pasta         string // the path of pasta, if works have networks of their own
	notRestricted error
	mkfs          string // the path of mkfs.ext4, if works have disks of their own
	notLimited    error  // why works have no disks of their own
	cutOff        error  // why the trial of the boundary was interrupted; nil if it was not
}

// New creates an executor and loads the works that an earlier one left on disk.
func New(cfg Config, d Deps) (*Host, error) {
	cfg = withDefaults(cfg)
	if d.Names == nil {
		d.Names = &net.Resolver{}
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("read the agent's cgroup: %w", err)
	}
	retry := clock.Backoff{Base: 200 * time.Millisecond, Max: 10 * time.Second, Jitter: d.Jitter}
	h := &Host{
		cfg: cfg, deps: d, control: shim.Control{Exec: cfg.Exec, Clock: d.Clock, Environ: cfg.Environ},
		objects:  objcache.NewStore(filepath.Join(cfg.Data, "objects"), cfg.CacheBytes, d.Downloader, d.Clock),
		holder:   boundary.Detect("/sys/fs/cgroup", string(own)),
		shipper:  logship.NewShipper(d.HTTP, d.Clock, retry.Wait, d.Log),
		prober:   engine.NewProber(d.Clock),
		retry:    retry,
		restart:  clock.Backoff{Base: time.Second, Max: 30 * time.Second, Jitter: d.Jitter},
		changes:  make(chan struct{}, 1),
		shutdown: make(chan struct{}),
		tried:    make(chan struct{}),
		lent:     map[int]bool{},
		works:    map[executor.Key]*work{},
		folders:  executor.MachineGPUs(),
	}
	if _, err := executor.PermittedGPUs(h.folders.List(), cfg.Environ); err != nil {
		return nil, fmt.Errorf("find the GPUs of works: %w", err)
	}
	h.envs = pyenv.NewBuilder(cfg.Environments, cfg.Environ, d.Clock, h.runBuildStep)
	h.envs.LimitWheels(cfg.WheelBytes)
	h.envs.Limit(cfg.EnvironmentBytes, h.freed("environments"))
	h.objects.OnFreed(h.freed("objects"))
	return h, h.load()
}

// freed returns a function that reports how many bytes were removed from the cache.
func (h *Host) freed(cache string) func(ctx context.Context, bytes int64) {
	return func(ctx context.Context, bytes int64) {
		h.deps.Log.InfoContext(ctx, "removed the least recently used entries of a cache", "cache", cache, "bytes", bytes)
		if h.deps.Freed != nil {
			h.deps.Freed(ctx, cache, bytes)
		}
	}
}

func withDefaults(cfg Config) Config {
	if cfg.Environments == "" {
		cfg.Environments = filepath.Join(cfg.Data, "envs")
	}
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{
		{&cfg.FetchTimeout, 10 * time.Minute},
		{&cfg.CollectTimeout, 15 * time.Minute},
		{&cfg.ProbeInterval, 10 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.usual
		}
	}
	return cfg
}

// Limits returns the way in which this machine enforces limits. The node reports it in its inventory.
func (h *Host) Limits() string { return string(h.holder.Mode()) }

// Boundary returns the report on the boundary. It waits until Run has tried the boundary or ctx ends. If a stop of the
// agent has interrupted the trial, it returns an error and no report, because nothing is known about the machine then.
func (h *Host) Boundary(ctx context.Context) (boundary.Report, error) {
	select {
	case <-h.tried:
		if h.cutOff != nil {
			return boundary.Report{}, h.cutOff
		}
		return h.report(), nil
	case <-ctx.Done():
		return boundary.Report{}, fmt.Errorf("wait for the trial of the boundary: %w", ctx.Err())
	}
}

// report returns the report on the boundary. It must be called after the boundary was tried.
func (h *Host) report() boundary.Report {
	return boundary.Findings{
		Kind: h.kind, Network: h.net, Mode: h.holder.Mode(), Users: h.cfg.WorkUsers, Required: h.cfg.Isolate, NotIsolated: h.notIsolated,
		NotRestricted: h.notRestricted, NoDisk: h.notLimited, NoGroups: h.holder.NoGroups(), Landlock: boundary.LandlockVersion(),
	}.Report()
}

// limits returns the given limits with defaults for those that a work does not request.
func (h *Host) limits(l executor.Limits) executor.Limits {
	return boundary.NewDefaults(h.cfg.Memory).Fill(l, h.holder.Mode())
}

// engineLimits is like limits for an engine.
func (h *Host) engineLimits(l executor.Limits) executor.Limits {
	return boundary.NewDefaults(h.cfg.Memory).FillEngine(l)
}

// plan returns how this machine enforces the limits of a work, to which limits or engineLimits has added the defaults.
func (h *Host) plan(name string, l executor.Limits) boundary.Plan {
	p := h.holder.Plan(name, l)
	p.Files = boundary.FileBound(h.cfg.WorkFiles, "/proc")
	return p
}

func (h *Host) worksDir() string { return filepath.Join(h.cfg.Data, "works") }

// load reads the works that an earlier executor left on disk.
func (h *Host) load() error {
	if err := os.MkdirAll(h.worksDir(), 0o700); err != nil {
		return fmt.Errorf("create the folder of works: %w", err)
	}
	entries, err := os.ReadDir(h.worksDir())
	if err != nil {
		return fmt.Errorf("list the works: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(h.worksDir(), e.Name())
		w, err := loadWork(h, dir)
		if strings.HasPrefix(e.Name(), removing) || errors.Is(err, fs.ErrNotExist) {
			// The work was only partly created or partly removed: none of its processes is running.
			h.removeLeftover(dir)
			continue
		}
		if err != nil {
			return fmt.Errorf("load work %s: %w", e.Name(), err)
		}
		h.works[w.key] = w
	}
	return nil
}

// Run runs the works until ctx ends. The processes of works keep running under their shims, and the next
// executor with the same folder adopts them.
func (h *Host) Run(ctx context.Context) error {
	h.holder.Clean(h.deps.Clock.Now())
	h.endBuilds(ctx)
	h.tryIsolation(ctx)
	h.mu.Lock()
	h.ctx = ctx
	for _, w := range h.works {
		h.start(w)
	}
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()
	h.down = true
	h.mu.Unlock()
	h.keepers.Wait()
	return nil
}

// start starts the goroutines of the work if the host is running. The caller holds h.mu.
func (h *Host) start(w *work) {
	if h.ctx == nil || h.down || w.started {
		return
	}
	w.started = true
	h.keepers.Go(func() { w.keep(h.ctx) })
	h.keepers.Go(func() { w.expire(h.ctx) })
	h.keepers.Go(func() { w.followNames(h.ctx) })
	h.keepers.Go(func() { w.followEndpoint(h.ctx) })
}

// Changes returns a channel that receives a value after the result of Observed has changed.
func (h *Host) Changes() <-chan struct{} { return h.changes }

func (h *Host) changed() {
	select {
	case h.changes <- struct{}{}:
	default:
	}
}

// Observed returns all known executions, ordered by work id.
func (h *Host) Observed() []executor.Observation {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]executor.Observation, 0, len(h.works)+len(h.gone))
	for _, w := range h.works {
		seen := w.observed()
		if h.frozen[seen.String()] && seen.Phase == executor.PhaseRunning {
			seen.Detail = executor.DetailFrozen
		}
		all = append(all, seen)
	}
	for _, key := range h.gone {
		all = append(all, executor.Observation{Key: key, Phase: executor.PhaseGone})
	}
	sort.Slice(all, func(i, j int) bool { return all[i].String() < all[j].String() })
	return all
}

// SetFrozen sets the names of the folders of the works whose processes are stopped because the disk is full. Observed
// then returns executor.DetailFrozen for those works that are running. The names are kept only in memory.
func (h *Host) SetFrozen(frozen map[string]bool) {
	h.mu.Lock()
	news := !maps.Equal(h.frozen, frozen)
	h.frozen = frozen
	h.mu.Unlock()
	if news {
		h.changed()
	}
}
