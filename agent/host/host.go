// Package host is the executor of one machine: it fetches what a work needs,
// builds its Python environment, runs it under a shim, ships its log and, for
// engines, probes them. What an attempt that was killed still had to report is
// reported for it. All it knows lies on disk below one folder, so that an
// agent that was killed takes up every work where it stood: nothing is started
// twice, no exit status and no log line is lost.
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

	"github.com/signalbox-dev/signalbox/agent/backoff"
	"github.com/signalbox-dev/signalbox/agent/engine"
	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/environment"
	"github.com/signalbox-dev/signalbox/agent/host/limits"
	"github.com/signalbox-dev/signalbox/agent/host/objects"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/agent/host/ship"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Config is what a host executor is told.
type Config struct {
	// Data is the folder of all that it keeps; Environments, where set, the one of
	// the Python environments (Data/envs otherwise).
	Data         string
	Environments string
	// Exec is the program and its leading arguments that end in shim.Main.
	Exec []string
	// CacheBytes bounds the objects kept between works; 0 keeps all.
	CacheBytes int64
	// FetchTimeout is how long fetching may be tried again; 10 minutes where 0.
	FetchTimeout time.Duration
	// CollectTimeout is how long the rest of a log may be delivered, counted from the end of the
	// work over restarts of the agent; 15 minutes where 0.
	CollectTimeout time.Duration
	// ProbeInterval is the time between two looks at a ready engine; 10 seconds where 0.
	ProbeInterval time.Duration
	// Environ is the environment of the agent's process: PATH, and the user's
	// settings of pip, uv and proxies. None of it reaches a work.
	Environ []string
}

// Deps is what a host executor works with.
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

// Host is the executor. New starts nothing; Run works until its context ends.
type Host struct {
	cfg     Config
	deps    Deps
	control shim.Control
	objects *objects.Store
	envs    *environment.Builder
	holder  limits.Holder
	shipper *ship.Shipper
	prober  *engine.Prober
	retry   backoff.Policy
	restart backoff.Policy

	changes  chan struct{}
	shutdown chan struct{}

	mu    sync.Mutex
	works map[executor.Key]*work
	// listed is what the last list named; gone those of it of which nothing is here.
	listed  map[executor.Key]bool
	gone    []executor.Key
	ctx     context.Context //nolint:containedctx // of Run, for works that Apply adds later
	keepers sync.WaitGroup
	down    bool
}

// New makes an executor and reads what an earlier one left on disk.
func New(cfg Config, d Deps) (*Host, error) {
	cfg = withDefaults(cfg)
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("read the own cgroup: %w", err)
	}
	retry := backoff.Policy{Base: 200 * time.Millisecond, Max: 10 * time.Second, Jitter: d.Jitter}
	h := &Host{
		cfg: cfg, deps: d, control: shim.Control{Exec: cfg.Exec, Clock: d.Clock},
		objects:  objects.NewStore(filepath.Join(cfg.Data, "objects"), cfg.CacheBytes, d.Downloader, d.Clock),
		envs:     environment.NewBuilder(cfg.Environments, cfg.Environ, d.Clock),
		holder:   limits.Detect("/sys/fs/cgroup", string(own)),
		shipper:  ship.NewShipper(d.HTTP, d.Clock, retry.Wait, d.Log),
		prober:   engine.NewProber(d.Clock),
		retry:    retry,
		restart:  backoff.Policy{Base: time.Second, Max: 30 * time.Second, Jitter: d.Jitter},
		changes:  make(chan struct{}, 1),
		shutdown: make(chan struct{}),
		works:    map[executor.Key]*work{},
	}
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

// Limits tells how this machine holds limits, for the inventory.
func (h *Host) Limits() string { return string(h.holder.Mode()) }

func (h *Host) worksDir() string { return filepath.Join(h.cfg.Data, "works") }

const removing = ".removing-"

// load reads the works that an earlier executor left.
func (h *Host) load() error {
	if err := os.MkdirAll(h.worksDir(), 0o700); err != nil {
		return fmt.Errorf("make the folder of works: %w", err)
	}
	entries, err := os.ReadDir(h.worksDir())
	if err != nil {
		return fmt.Errorf("list the works: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(h.worksDir(), e.Name())
		w, err := loadWork(h, dir)
		if strings.HasPrefix(e.Name(), removing) || errors.Is(err, fs.ErrNotExist) {
			// Half removed or half made: nothing runs there.
			if err := os.RemoveAll(dir); err != nil {
				return fmt.Errorf("remove the rest of a work: %w", err)
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

// Run works until ctx ends. What runs then goes on running under its shims and
// is taken up by the next executor over the same folder.
func (h *Host) Run(ctx context.Context) error {
	h.holder.Clean(h.deps.Clock.Now())
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

// start begins to keep the work; the caller holds the lock.
func (h *Host) start(w *work) {
	if h.ctx == nil || h.down || w.started {
		return
	}
	w.started = true
	h.keepers.Go(func() { w.keep(h.ctx) })
	h.keepers.Go(func() { w.expire(h.ctx) })
}

// Changes carries a value after a change of Observed.
func (h *Host) Changes() <-chan struct{} { return h.changes }

func (h *Host) changed() {
	select {
	case h.changes <- struct{}{}:
	default:
	}
}

// Observed is the whole of what is known.
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

// Shutdown ends every process within about two seconds where stopWorks is set:
// attempts end with the reason `stopped`, engines are started again by the next
// executor. Run goes on meanwhile, so that the ends are seen and reported.
func (h *Host) Shutdown(ctx context.Context, stopWorks bool) error {
	if !stopWorks {
		return nil
	}
	h.mu.Lock()
	if !closed(h.shutdown) {
		close(h.shutdown)
	}
	var all []*work
	for _, w := range h.works {
		if w.started {
			all = append(all, w)
		}
	}
	h.mu.Unlock()
	for _, w := range all {
		select {
		case <-w.quiet:
		case <-ctx.Done():
			return fmt.Errorf("stop work %s: %w", w.key, ctx.Err())
		}
	}
	return nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
