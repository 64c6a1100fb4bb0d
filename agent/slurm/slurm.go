// Package slurm runs attempts on a Slurm cluster, with Slurm's commands on the agent's host. It gives each attempt, with
// all its ranks, to Slurm as one job, and implements host.Runner.
//
// The agent and all nodes share a folder. The state of an attempt is in its folder `run` there: batch.json (what to
// submit), submitting.json (sbatch may have been called), slurm.json (the id of the job), stop.json (a requested stop),
// end.json (how the attempt ended), and what package rank describes. The exit files of the ranks decide how an attempt
// ended. The state of the Slurm job counts only if they are missing, because Slurm forgets a job soon after its end.
//
// An attempt runs at most once, although the agent may be killed at any time: if sbatch was called and its result was
// lost, the runner looks for the job by its comment and submits another one only if there is none. If both start, the
// second one finds the claim of the first one and starts nothing.
package slurm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// Config is the configuration of a runner.
type Config struct {
	// Folder is the agent's own folder on the shared file system. It contains the folder `works`.
	Folder string
	// Shared is the folder of the setting SERVICE_AGENT_SLURM_FOLDER, which the pools must name.
	Shared string
	// Agent identifies the agent in the comments of Slurm jobs.
	Agent string
	// Program is the path of the agent's program on the shared file system.
	Program string
	// Environ is the environment of the agent. Slurm's commands run in it; the ranks receive its settings for proxies and
	// certificates.
	Environ []string
	// Place is how works are isolated. It is used for the test of pools.
	Place host.Place
	// Interval is the time between two queries of Slurm, 2 s if 0. Settle is the time after the end of a Slurm job within
	// which the exit files of its ranks must appear, 30 s if 0. ReportInterval is the time between two reports of the
	// cluster, 30 s if 0.
	Interval, Settle, ReportInterval time.Duration
}

// Deps are the dependencies of a runner.
type Deps struct {
	// Commands runs Slurm's commands; NewCommands returns the real ones.
	Commands Commands
	Clock    clock.Clock
	Log      *slog.Logger
}

// Runner implements host.Runner on a Slurm cluster. New starts nothing; Run queries Slurm until its context ends.
type Runner struct {
	cfg  Config
	deps Deps
	// wake receives a value when Slurm should be queried at once.
	wake chan struct{}
	// changes receives a value when the result of Report has changed.
	changes chan struct{}

	mu sync.Mutex
	// seen is the result of the last query. turned is closed and replaced after each query.
	seen   snapshot
	turned chan struct{}
	// watching is the number of attempts that are awaited.
	watching int
	// cancelled contains the time of the last scancel of each job that nothing belongs to.
	cancelled map[string]time.Time

	reporting reporting
}

// snapshot is the result of one query.
type snapshot struct {
	// at is the time at which the query began. number counts the successful queries.
	at     time.Time
	number int
	jobs   map[string]Job
	// problem is why the last query failed; nil if it succeeded.
	problem error
}

const (
	usualInterval       = 2 * time.Second
	usualSettle         = 30 * time.Second
	usualReportInterval = 30 * time.Second
	// idleInterval is the time between two queries while no attempt is awaited.
	idleInterval = 30 * time.Second
)

// New returns a runner.
func New(cfg Config, d Deps) *Runner {
	for _, s := range []struct {
		value *time.Duration
		usual time.Duration
	}{{&cfg.Interval, usualInterval}, {&cfg.Settle, usualSettle}, {&cfg.ReportInterval, usualReportInterval}} {
		if *s.value <= 0 {
			*s.value = s.usual
		}
	}
	return &Runner{
		cfg: cfg, deps: d, wake: make(chan struct{}, 1), changes: make(chan struct{}, 1), turned: make(chan struct{}),
		cancelled: map[string]time.Time{}, reporting: newReporting(),
	}
}

// Run queries Slurm for the states of jobs, reports the cluster and tests its pools until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	workers.Go(func() { r.keepReport(ctx) })
	workers.Go(func() { r.keepPools(ctx) })
	for ctx.Err() == nil {
		r.query(ctx)
		r.pause(ctx)
	}
	return nil
}

// pause waits until the next query is due. Queries that are requested come at least a quarter of the interval apart.
func (r *Runner) pause(ctx context.Context) {
	const part = 4
	if clock.Sleep(ctx, r.deps.Clock, r.cfg.Interval/part) != nil {
		return
	}
	r.mu.Lock()
	rest := idleInterval
	if r.watching > 0 {
		rest = r.cfg.Interval - r.cfg.Interval/part
	}
	r.mu.Unlock()
	timer := r.deps.Clock.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	case <-r.wake:
	}
}

// soon requests a query.
func (r *Runner) soon() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// query requests all jobs of the agent's user from Slurm, and cancels those to which no work belongs.
func (r *Runner) query(ctx context.Context) {
	began := r.deps.Clock.Now()
	out, err := r.deps.Commands.Run(ctx, "squeue", "--noheader", "--states=all", "--user="+strconv.Itoa(os.Geteuid()), "--format="+queueFormat)
	if ctx.Err() != nil {
		return
	}
	var jobs map[string]Job
	if err == nil {
		jobs = parseQueue(string(out))
	}
	r.mu.Lock()
	if err != nil {
		r.seen.problem = fmt.Errorf("query the jobs of Slurm: %w", err)
	} else {
		r.seen = snapshot{at: began, number: r.seen.number + 1, jobs: jobs}
	}
	close(r.turned)
	r.turned = make(chan struct{})
	r.mu.Unlock()
	if err != nil {
		r.deps.Log.WarnContext(ctx, "Slurm does not respond", "error", err.Error())
		return
	}
	r.sweep(ctx, jobs)
}

// latest returns the result of the last query, and a channel that is closed after the next one.
func (r *Runner) latest() (snapshot, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen, r.turned
}

// comment returns the comment of the Slurm job of an execution.
func (r *Runner) comment(key executor.Key) string { return r.commentPrefix() + key.String() }

func (r *Runner) commentPrefix() string { return "signalbox:" + r.cfg.Agent + ":" }

// keyOf returns what the comment of a job names after the id of the agent, or an empty text if the job is not the agent's.
// The cluster may have extended the comment on both sides.
func (r *Runner) keyOf(j Job) string {
	_, rest, found := strings.Cut(j.Comment, r.commentPrefix())
	if !found {
		return ""
	}
	end := strings.IndexFunc(rest, func(c rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", c)
	})
	if end >= 0 {
		rest = rest[:end]
	}
	return rest
}

// cancelAgain is the time after which a job that is still there is cancelled again.
const cancelAgain = 10 * time.Second

// sweep cancels the jobs of this agent to which no execution belongs: their folder was removed, or another job runs the
// attempt.
func (r *Runner) sweep(ctx context.Context, jobs map[string]Job) {
	var unknown []string
	if !Marked(r.cfg.Folder) {
		r.deps.Log.WarnContext(ctx, "cannot see the agent's folder on the shared file system, so no Slurm job is cancelled", "folder", r.cfg.Folder)
		return
	}
	for _, j := range jobs {
		key := r.keyOf(j)
		if key == "" || j.Ended() || !filepath.IsLocal(key) {
			continue
		}
		cancel := r.foreign(key, j)
		if now := r.deps.Clock.Now(); cancel != nil && now.Sub(r.cancelled[j.ID]) > cancelAgain { // only this goroutine uses the map
			r.cancelled[j.ID] = now
			unknown = append(unknown, j.ID)
			if err := cancel(ctx, j.ID); err != nil {
				r.deps.Log.WarnContext(ctx, "cannot cancel a Slurm job; trying again", "job", j.ID, "error", err.Error())
			}
		}
	}
	maps.DeleteFunc(r.cancelled, func(id string, _ time.Time) bool { return jobs[id].ID == "" })
	if len(unknown) > 0 {
		slices.Sort(unknown)
		r.deps.Log.WarnContext(ctx, "cancelling Slurm jobs to which no work belongs", "jobs", strings.Join(unknown, ","))
	}
}

// foreign returns how to cancel the job if it must not run the execution with the given key, otherwise nil. While no job
// has claimed the execution, a second job is cancelled only if it waits: if both have started, the claim decides.
func (r *Runner) foreign(key string, j Job) func(ctx context.Context, id string) error {
	if probe, ok := strings.CutPrefix(key, probePrefix); ok {
		if !missing(r.probeDir(probe)) {
			return nil
		}
		return r.cancel // an earlier agent was killed during the test
	}
	dir := filepath.Join(r.cfg.Folder, "works", key, "run")
	known, owner := recorded(dir), claimed(dir)
	switch {
	case missing(orderFile(dir)) || r.endedLong(dir):
		return r.cancel
	case known == "" || known == j.ID || owner == j.ID:
		return nil
	case owner != "":
		return r.cancel
	case j.Held():
		return r.cancelWaiting
	}
	return nil
}

// endedLong reports whether the attempt in the folder ended so long ago that its Slurm job should have ended by itself.
func (r *Runner) endedLong(dir string) bool {
	const within = 20 * time.Second
	var f finished
	return localfile.ReadJSON(endFile(dir), &f) == nil && clock.Since(r.deps.Clock, f.At) > within
}

// cancel ends a job at once.
func (r *Runner) cancel(ctx context.Context, id string) error {
	if _, err := r.deps.Commands.Run(ctx, "scancel", "--quiet", id); err != nil {
		return fmt.Errorf("cancel the Slurm job %s: %w", id, err)
	}
	return nil
}

// cancelWaiting is like cancel, but does nothing if the job has started.
func (r *Runner) cancelWaiting(ctx context.Context, id string) error {
	if _, err := r.deps.Commands.Run(ctx, "scancel", "--quiet", "--state=PENDING", id); err != nil {
		return fmt.Errorf("cancel the Slurm job %s: %w", id, err)
	}
	return nil
}

// checkUser returns an error unless the user of the pool is that of the agent. Jobs of another user would need control
// files that this user may change, while the agent that reads and writes them is root.
func (r *Runner) checkUser(ctx context.Context, p executor.SlurmPool) error {
	if p.User == "" {
		return nil
	}
	out, err := r.deps.Commands.Run(ctx, "id", "-u", p.User)
	if _, unknown := errors.AsType[*CommandError](err); unknown {
		return fmt.Errorf("the user %s of the pool does not exist on the host of the agent", p.User)
	}
	if err != nil {
		return fmt.Errorf("find the user of the pool: %w", err)
	}
	if strings.TrimSpace(string(out)) != strconv.Itoa(os.Geteuid()) {
		return fmt.Errorf("the pool's jobs must run as user %s, but the agent runs as another user; run an agent as %[1]s, or leave the user of the pool empty", p.User)
	}
	return nil
}
