package engineclient

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/process"
)

const (
	// enoughProbes is the number of probes that must fail before an engine is replaced.
	enoughProbes = 2
	// looks is how many times the watchdog looks at the engines within the time that counts as silence.
	looks = 6
	// giveUp is how long a suspicion is kept after it should have led to a replacement, as a multiple of the time that
	// counts as silence. If calls still wait, the engine is suspected again.
	giveUp = 20
	// MaxWait is the largest limit of Waits that a revision or the settings can have. The watchdog uses it for engines to
	// which this replica sends no calls.
	MaxWait = time.Hour
)

// Replacer replaces an engine. Its result is false if another engine has already taken the engine's place.
type Replacer interface {
	Replace(ctx context.Context, t Target, silent time.Duration) (replaced bool, err error)
}

// tally counts what the watchdog does.
type tally interface {
	Probed(ctx context.Context, result string)
	Replaced(ctx context.Context)
}

// Watchdog finds engines that hang. An engine is suspected when calls wait and none got a byte for a while. It is
// replaced if two probes then fail and no replica of inference gets a byte meanwhile. An engine that has more calls
// than it can serve is not replaced, because some of the calls get bytes, or would get them if their callers had not
// left (see abandoned), or its token counters grow (see progress). An engine without such counters may be busy with one
// long call: the second probe waits until the engine has been silent for as long as its calls may wait.
type Watchdog struct {
	Client *Client
	// Targets returns the engines to which calls are sent.
	Targets  func() []Target
	Store    *SilenceStore
	Replacer Replacer
	// After is the time without a byte after which an engine is suspected. It is also the time limit of a probe.
	After time.Duration
	// Name is unique for each process.
	Name  string
	Clock clock.Clock
	Log   *slog.Logger
	Tally tally

	probing sync.WaitGroup

	mu sync.Mutex
	// stalled contains the suspected engines whose counters stood still during a probe of this process.
	stalled map[execution]bool
}

// Run watches the engines until ctx ends, and then waits for open probes.
func (d *Watchdog) Run(ctx context.Context) error {
	defer d.probing.Wait()
	look := process.Logged(d.Log, "inference.watchdog", d.look)
	return process.Loop(ctx, d.Clock, d.After/looks, d.After/looks/looks, look)
}

// look stores a suspicion for each engine that is silent, and acts on the suspicions that were already stored.
func (d *Watchdog) look(ctx context.Context) error {
	rows, err := d.Store.List(ctx)
	if err != nil {
		return err
	}
	d.forget(rows)
	d.Client.hearAbandoned()
	silent := d.Client.silences.silent(d.After, d.Clock.Now())
	if len(rows)+len(silent) == 0 {
		return nil
	}
	served := map[execution]Target{}
	for _, t := range d.Targets() {
		served[execution{t.ReplicaID, t.Address}] = t
		if quiet, ok := silent[t.Engine]; ok {
			if err := d.suspect(ctx, t, quiet); err != nil {
				return err
			}
		}
	}
	for _, s := range rows {
		t, ok := served[s.execution()]
		if err := d.pursue(ctx, s, t, ok); err != nil {
			return err
		}
	}
	return nil
}

func (d *Watchdog) suspect(ctx context.Context, t Target, quiet time.Duration) error {
	added, err := d.Store.Suspect(ctx, t)
	if added {
		d.Log.WarnContext(ctx, "no call gets a byte from an engine; probing it", "revision_id", t.RevisionID, "replica_id", t.ReplicaID,
			"silent", quiet.Round(time.Millisecond).String())
	}
	return err
}

// pursue acts on one suspicion: it clears the suspicion, probes the engine or replaces the engine. The parameter served
// is false if this replica sends no calls to the engine.
func (d *Watchdog) pursue(ctx context.Context, s *Suspicion, t Target, served bool) error {
	ago, heard := d.Client.silences.heardAgo(t.Engine, d.Clock.Now())
	wait := MaxWait
	if served {
		wait = d.wait(t)
	}
	switch {
	case s.Age > wait+giveUp*d.After, served && heard && ago < s.Age:
		return d.Store.Clear(ctx, s.execution())
	case !served:
		return nil
	case s.FailedProbes >= enoughProbes:
		return d.replace(ctx, s, t)
	case s.FailedProbes == enoughProbes-1 && s.Age+d.After < wait:
		return nil // it may be busy
	}
	const probeTimes = 3 // a claim lasts longer than a probe with its requests for metrics
	claimed, err := d.Store.Claim(ctx, s.execution(), d.Name, probeTimes*d.After)
	if err != nil || !claimed {
		return err
	}
	d.probing.Go(func() { d.probe(ctx, t) })
	return nil
}

// wait returns how long an engine must be silent before its last probe: not at all if its counters stood still,
// otherwise as long as a call may wait for a byte.
func (d *Watchdog) wait(t Target) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stalled[execution{t.ReplicaID, t.Address}] {
		return 0
	}
	w := d.Client.waits(t.Waits)
	return max(w.FirstByte, w.Idle)
}

// forget drops what is known about engines that are no longer suspected.
func (d *Watchdog) forget(suspected []*Suspicion) {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := map[execution]bool{}
	for _, s := range suspected {
		if d.stalled[s.execution()] {
			kept[s.execution()] = true
		}
	}
	d.stalled = kept
}

// stall records that the counters of a suspected engine stood still.
func (d *Watchdog) stall(e execution) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stalled[e] = true
}

// probe sends one probe and stores the result. If storing it fails, another process probes the engine after a while.
func (d *Watchdog) probe(ctx context.Context, t Target) {
	result := d.Client.Probe(ctx, t, d.After)
	if ctx.Err() != nil {
		return
	}
	d.Tally.Probed(ctx, string(result))
	e := execution{t.ReplicaID, t.Address}
	var err error
	switch result {
	case Alive, Busy:
		err = d.Store.Clear(ctx, e)
	case Stalled:
		d.stall(e)
		err = d.Store.Failed(ctx, e, d.Name)
	case Silent:
		err = d.Store.Failed(ctx, e, d.Name)
	case Unreachable: // the claim expires by itself
	}
	if err != nil && ctx.Err() == nil {
		d.Log.WarnContext(ctx, "cannot store the result of a probe", "error", err.Error())
	}
}

func (d *Watchdog) replace(ctx context.Context, s *Suspicion, t Target) error {
	silent := s.Age + d.After
	replaced, err := d.Replacer.Replace(ctx, t, silent)
	if err != nil {
		return err
	}
	if replaced {
		d.Tally.Replaced(ctx)
		d.Log.WarnContext(ctx, "an engine hangs; it is being replaced", "revision_id", t.RevisionID, "replica_id", t.ReplicaID,
			"silent", silent.Round(time.Second).String())
	}
	return d.Store.Clear(ctx, s.execution())
}
