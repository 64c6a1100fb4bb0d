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
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// Config is the configuration of a host executor.
type Config struct {
	// Data is the folder that contains all state. Environments is the folder of the Python environments;
	// Data/envs if empty.
	Data         string
	Environments string
	// Exec is the command line that runs shim.Main.
	Exec []string
	// CacheBytes is the maximum size of the objects cached between works; 0 means no limit.
	CacheBytes int64
	// FetchTimeout limits the retries of a download or of an ingest token request; 10 minutes if 0.
	FetchTimeout time.Duration
	// CollectTimeout limits the delivery of the rest of a log. It counts from the end of the work, even if the
	// agent is restarted; 15 minutes if 0.
	CollectTimeout time.Duration
	// ProbeInterval is the time between two probes of a ready engine; 10 seconds if 0.
	ProbeInterval time.Duration
	// Isolate runs each work inside a boundary. If the machine cannot do that, works are refused.
	Isolate bool
	// WorkUsers are the user ids of works if the agent runs as root. No other user of the machine may have them.
	WorkUsers boundary.Users
	// WorkPaths are further files and folders of the machine that works may read.
	WorkPaths []string
	// Environ is the environment of the agent's process. It has PATH and the user's settings for pip, uv and
	// proxies. Works receive none of it.
	Environ []string
}

// Deps are the dependencies of a host executor.
type Deps struct {
	Downloader executor.Downloader
	Tokens     executor.TokenMinter
	// HTTP delivers logs.
	HTTP   *http.Client
	SDK    fs.FS
	Clock  clock.Clock
	Rand   io.Reader
	Jitter func() float64
	Log    *slog.Logger
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

	changes  chan struct{}
	shutdown chan struct{}

	mu    sync.Mutex
	works map[executor.Key]*work
	// listed contains the keys of the last list. gone contains the keys that Observed reports as gone.
	listed  map[executor.Key]bool
	gone    []executor.Key
	ctx     context.Context //nolint:containedctx // the context of Run, for works that Apply adds later
	keepers sync.WaitGroup
	down    bool

	// lent are the user ids of builds that are running.
	lent map[int]bool
	// tried is closed when kind and notIsolated are known, see Isolation.
	tried       chan struct{}
	kind        boundary.Kind
	notIsolated error
}

// New creates an executor and loads the works that an earlier one left on disk.
func New(cfg Config, d Deps) (*Host, error) {
	cfg = withDefaults(cfg)
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("read the agent's cgroup: %w", err)
	}
	retry := clock.Backoff{Base: 200 * time.Millisecond, Max: 10 * time.Second, Jitter: d.Jitter}
	h := &Host{
		cfg: cfg, deps: d, control: shim.Control{Exec: cfg.Exec, Clock: d.Clock},
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
	}
	h.envs = pyenv.NewBuilder(cfg.Environments, cfg.Environ, d.Clock, h.runBuildStep)
	return h, h.load()
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

func (h *Host) worksDir() string { return filepath.Join(h.cfg.Data, "works") }

const removing = ".removing-"

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
			if err := os.RemoveAll(dir); err != nil {
				return fmt.Errorf("remove the folder of an incomplete work: %w", err)
			}
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
		all = append(all, w.observed())
	}
	for _, key := range h.gone {
		all = append(all, executor.Observation{Key: key, Phase: executor.PhaseGone})
	}
	sort.Slice(all, func(i, j int) bool { return all[i].String() < all[j].String() })
	return all
}

// Shutdown prepares the planned end of Run, which must still be running. If stopWorks is false, the works keep running
// under their shims, and Shutdown only marks them: if they end before the next executor starts, because the container or
// the machine was stopped, they count as stopped and not as lost. Otherwise Shutdown ends every process within about two
// seconds. Attempts then end with the reason `stopped`, which Run records and reports, and the next executor starts the
// engines again.
func (h *Host) Shutdown(ctx context.Context, stopWorks bool) error {
	h.mu.Lock()
	if stopWorks && !closed(h.shutdown) {
		close(h.shutdown)
	}
	var all []*work
	for _, w := range h.works {
		if w.started {
			all = append(all, w)
		}
	}
	h.mu.Unlock()
	if !stopWorks {
		errs := make([]error, 0, len(all))
		for _, w := range all {
			errs = append(errs, w.leave())
		}
		return errors.Join(errs...)
	}
	for _, w := range all {
		select {
		case <-w.quiet:
		case <-ctx.Done():
			return fmt.Errorf("stop work %s: %w", w.key, ctx.Err())
		}
	}
	return nil
}

// leftFile marks a work that the agent left to its shim when it stopped. If the work's processes have ended without a
// result when the next agent starts, the stop was planned for them too: a container was stopped, or the machine was shut
// down.
func (w *work) leftFile() string { return w.path("left.json") }

// leave creates the mark unless the work has ended.
func (w *work) leave() error {
	if p := w.observed().Phase; p == executor.PhaseCollecting || p == executor.PhaseExited {
		return nil
	}
	return localfile.WriteJSON(w.leftFile(), struct {
		At time.Time `json:"at"`
	}{w.host.deps.Clock.Now()}, localfile.PrivateMode)
}

// takeBack removes the mark if the processes of the work are still running or were never started. A later end is then not
// part of the planned stop.
func (w *work) takeBack() error {
	for _, dir := range w.runDirs() {
		state, err := w.host.control.State(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if state == shim.Ended || state == shim.Lost {
			return nil
		}
	}
	return w.forgetLeft()
}

func (w *work) forgetLeft() error {
	if err := os.Remove(w.leftFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the mark of a planned stop: %w", err)
	}
	return nil
}

// planned reports whether the end of the processes in dir was intended: the agent requested it, or the agent itself was
// stopped before.
func (w *work) planned(dir string) bool {
	_, err := os.Stat(w.leftFile())
	return err == nil || w.host.control.StopRequested(dir)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
