package slurm

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/agent/slurm/rank"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// Launch implements host.Runner. It writes the files of the attempt; Await submits it.
func (r *Runner) Launch(dir string, l host.Launch) error {
	o := order{Key: l.Key, JobID: l.Attempt.JobID, Attempt: l.Attempt.Attempt, Batch: *l.Attempt.Batch, Grace: l.Attempt.Grace}
	for n, start := range l.Starts {
		if err := (host.Template{Start: start, Place: l.Place}).Write(host.RankDir(dir, n)); err != nil {
			return err
		}
	}
	const executable = 0o700
	if err := localfile.Write(scriptFile(dir), []byte(r.script(dir, o)), executable); err != nil {
		return err
	}
	return localfile.WriteJSON(orderFile(dir), o, localfile.PrivateMode)
}

// State implements host.Runner.
func (r *Runner) State(dir string) (shim.State, error) {
	switch {
	case ended(dir):
		return shim.Ended, nil
	case launched(dir):
		return shim.Alive, nil
	}
	return shim.Never, nil
}

// Stop implements host.Runner. Await passes the request on to Slurm.
func (r *Runner) Stop(dir string, grace time.Duration) error {
	var before stop
	err := localfile.ReadJSON(stopFile(dir), &before)
	if err == nil && before.Grace <= grace {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	o, err := readOrder(dir)
	if err != nil {
		return err
	}
	for n := range o.Batch.Ranks() {
		if err := (shim.Control{}).RequestStop(host.RankDir(dir, n), grace); err != nil {
			return err
		}
	}
	return localfile.WriteJSON(stopFile(dir), stop{Grace: grace, At: r.deps.Clock.Now()}, localfile.PrivateMode)
}

// StopRequested implements host.Runner.
func (r *Runner) StopRequested(dir string) bool { return exists(stopFile(dir)) }

// Reach implements host.Runner. The ranks read the file.
func (r *Runner) Reach(dir, endpoint string) error {
	if !launched(dir) {
		return nil
	}
	return localfile.Write(rank.EndpointFile(dir), []byte(endpoint+"\n"), localfile.PrivateMode)
}

// Discard implements host.Runner. It cancels the Slurm job of an attempt that is abandoned; that of an attempt which has
// ended ends by itself, and sweep cancels what is left. A job that the last query does not show as that of the attempt is
// left to sweep, because Slurm may have given its id to another job.
func (r *Runner) Discard(ctx context.Context, dir string) error {
	if !launched(dir) || ended(dir) {
		return nil
	}
	o, err := readOrder(dir)
	if err != nil {
		return err
	}
	seen, _ := r.latest()
	if j, known := seen.jobs[recorded(dir)]; known && r.owns(o.Key, j) {
		return r.cancel(ctx, j.ID)
	}
	return nil
}

// owns reports whether the job is one of the execution.
func (r *Runner) owns(key executor.Key, j Job) bool { return r.keyOf(j) == key.String() }

func readOrder(dir string) (o order, err error) {
	err = localfile.ReadJSON(orderFile(dir), &o)
	return o, err
}

// patience is how long the files of an attempt may be unreadable or unwritable before the attempt is given up.
const patience = 15 * time.Minute

// Await implements host.Runner. It submits the attempt unless that was done.
func (r *Runner) Await(ctx context.Context, dir string, progress func(host.Progress) error) (host.End, error) {
	var known finished
	err := localfile.ReadJSON(endFile(dir), &known)
	if err == nil {
		return known.End, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return host.End{}, err
	}
	o, err := readOrder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return host.End{}, shim.ErrNotStarted
	}
	if err != nil {
		return host.End{}, err
	}
	r.watch(1)
	defer r.watch(-1)
	a := &attempt{Runner: r, dir: dir, order: o, progress: progress, ranks: make([]rankState, o.Batch.Ranks())}
	return a.follow(ctx)
}

func (r *Runner) watch(n int) {
	r.mu.Lock()
	r.watching += n
	r.mu.Unlock()
	r.soon()
}

// attempt follows one attempt. Only the goroutine of Await uses it.
type attempt struct {
	*Runner

	dir      string
	order    order
	progress func(host.Progress) error
	// reported is the progress that was reported last.
	reported *host.Progress
	ranks    []rankState
	// job is the Slurm job in the last query. overAt is the time at which its end was first seen.
	job    Job
	overAt time.Time
	// absent is the number of the first successful query without the job, and absentAt its time.
	absent   int
	absentAt time.Time
	// signaled is the grace period for which Slurm was requested to send SIGTERM, and killedAt the time of the last scancel.
	signaled *time.Duration
	killedAt time.Time
	// failedAt is the time at which the first failure of a rank was seen.
	failedAt time.Time
	// downNodes are the nodes that are down after the job has ended because of its nodes, once that is located.
	downNodes string
	located   bool
	// wholeAt is the time at which all ranks had an exit.
	wholeAt time.Time
	// triedAt is the time of the last sbatch, and tries how many have failed. trouble is why the last one has failed.
	triedAt time.Time
	tries   int
	trouble string
	// brokenAt is the time since which the files of the attempt cannot be read or written; zero if they can.
	brokenAt time.Time
}

// rankState is what the files of a rank show.
type rankState struct {
	node    string
	running time.Time
	exit    *shim.Exit
}

// follow runs until the attempt has ended, and records its end.
func (a *attempt) follow(ctx context.Context) (host.End, error) {
	for {
		seen, turned := a.latest()
		end, err := a.step(ctx, seen)
		if err == nil && end != nil {
			err = a.conclude(*end)
		}
		if ctx.Err() != nil {
			return host.End{}, ctx.Err()
		}
		if err = a.bear(ctx, err); err != nil {
			return host.End{}, err
		}
		if end != nil && a.brokenAt.IsZero() {
			return *end, nil
		}
		timer := a.deps.Clock.NewTimer(a.look())
		select {
		case <-ctx.Done():
		case <-turned:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// look returns the time until the next check of the files of the ranks. Those of a job that waits do not change; Slurm's
// next query shows when it has started.
func (a *attempt) look() time.Duration {
	if a.job.Held() {
		return a.cfg.Interval
	}
	const part = 2
	return a.cfg.Interval / part
}

// bear returns nil for an error of the shared folder, such as a stale handle after a failure of its server, until the
// folder has failed for longer than patience.
func (a *attempt) bear(ctx context.Context, err error) error {
	switch now := a.deps.Clock.Now(); {
	case err == nil:
		a.brokenAt = time.Time{}
	case a.brokenAt.IsZero():
		a.brokenAt = now
		a.deps.Log.WarnContext(ctx, "cannot use the files of an attempt; trying again", "work", a.order.Key.String(), "error", err.Error())
	case now.Sub(a.brokenAt) > patience:
		return err
	}
	return nil
}

// conclude records the end of the attempt. Ranks without an exit may be on nodes that Slurm does not reach, so they are
// requested to stop.
func (a *attempt) conclude(end host.End) error {
	for n, r := range a.ranks {
		if r.exit != nil {
			continue
		}
		if err := (shim.Control{}).RequestStop(host.RankDir(a.dir, n), 0); err != nil {
			return err
		}
	}
	return localfile.WriteJSON(endFile(a.dir), finished{End: end, At: a.deps.Clock.Now()}, localfile.PrivateMode)
}

// step examines the attempt once and does what is due. It returns the end of the attempt, or nil.
func (a *attempt) step(ctx context.Context, seen snapshot) (*host.End, error) {
	if err := a.readRanks(); err != nil {
		return nil, err
	}
	requested, err := a.requested()
	if err != nil {
		return nil, err
	}
	id, end, err := a.identify(ctx, seen, requested != nil)
	if err != nil || end != nil {
		return end, err
	}
	a.observe(seen, id)
	a.locate(ctx)
	if err := a.report(id); err != nil {
		return nil, err
	}
	if end := a.end(requested); end != nil {
		return end, nil
	}
	return nil, a.act(ctx, id, requested)
}

// requested returns the requested stop, or nil.
func (a *attempt) requested() (*stop, error) {
	var s stop
	err := localfile.ReadJSON(stopFile(a.dir), &s)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &s, err
}

// readRanks reads the files of the ranks that have changed.
func (a *attempt) readRanks() error {
	rank.Refresh(a.dir)
	for n := range a.ranks {
		r, dir := &a.ranks[n], host.RankDir(a.dir, n)
		if r.exit != nil {
			continue
		}
		rank.Refresh(dir)
		if r.node == "" {
			name, err := rank.Node(dir)
			if err != nil {
				return err
			}
			r.node = name
		}
		if r.running.IsZero() {
			running, err := shim.Control{}.Running(dir)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err == nil && running.Command.PID != 0 {
				r.running = running.StartedAt
			}
		}
		var exit shim.Exit
		err := shim.ReadExit(dir, &exit)
		if err == nil {
			r.exit = &exit
			if r.running.IsZero() {
				r.running = exit.StartedAt // zero if nothing was started
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// observe takes over what the last query shows of the job.
func (a *attempt) observe(seen snapshot, id string) {
	if id == "" || seen.number == 0 || seen.at.Before(a.triedAt) {
		return
	}
	j, known := seen.jobs[id]
	if !known || !a.owns(a.order.Key, j) {
		if a.absent == 0 {
			a.absent, a.absentAt = seen.number, a.deps.Clock.Now()
		}
		return
	}
	a.absent, a.job = 0, j
	if j.Ended() && a.overAt.IsZero() {
		a.overAt = a.deps.Clock.Now()
	}
}

// report reports the progress if it has changed.
func (a *attempt) report(id string) error {
	p := host.Progress{Report: executor.BatchReport{ID: id}, Detail: a.trouble}
	var nodes []string
	running := true
	for _, r := range a.ranks {
		if r.node != "" {
			nodes = append(nodes, r.node)
		}
		running = running && !r.running.IsZero()
		if r.running.After(p.RunningAt) {
			p.RunningAt = r.running
		}
	}
	if !running {
		p.RunningAt = time.Time{}
	}
	started := a.job.ID != "" && !a.job.Held() && !a.job.Ended() || len(nodes) > 0
	switch {
	case started:
		p.Started, p.Detail = true, a.job.detail()
		if len(nodes) == len(a.ranks) {
			p.Report.Nodes = nodes
		}
	case a.job.Held():
		p.Report.Reason, p.Report.Detail = a.job.Reason, a.job.waits()
		if p.Report.Reason == "" {
			p.Report.Reason = "Pending" // Slurm has not considered the job yet
		}
	case a.job.Ended():
		return nil
	case a.trouble != "":
		p.Report.Reason, p.Report.Detail = "Submission", a.trouble
	}
	if b := a.reported; b != nil && b.Started == p.Started && b.Detail == p.Detail && b.RunningAt.Equal(p.RunningAt) && same(b.Report, p.Report) {
		return nil
	}
	a.reported = &p
	return a.progress(p)
}

func same(a, b executor.BatchReport) bool {
	return a.ID == b.ID && a.Reason == b.Reason && a.Detail == b.Detail && slices.Equal(a.Nodes, b.Nodes)
}
