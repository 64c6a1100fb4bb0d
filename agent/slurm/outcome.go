package slurm

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

const (
	// killAfter is the time after the grace period at which a job that was requested to stop is cancelled.
	killAfter = 10 * time.Second
	// killAgain is the time after which the cancellation is repeated.
	killAgain = 10 * time.Second
	// absences is how many queries in succession must lack a job that has left no exit files.
	absences = 3
)

// failed reports whether a rank has failed.
func failed(e *shim.Exit) bool { return e != nil && (e.Code != 0 || e.Failure != "") }

// end returns how the attempt ended, or nil if it has not ended yet.
func (a *attempt) end(requested *stop) *host.End {
	whole := true
	for _, r := range a.ranks {
		whole = whole && r.exit != nil
	}
	if !whole && !a.over() {
		return nil
	}
	end := a.first()
	if requested != nil || whole && !failed(&end.Exit) && !end.Exit.Stopped {
		return &end
	}
	if whole && a.wholeAt.IsZero() {
		a.wholeAt = a.deps.Clock.Now()
	}
	// The end of the job may explain the failure or the signal, so wait for it.
	const most = 20 * time.Second
	seen, _ := a.latest()
	unknown := a.overAt.IsZero() && a.absent == 0 && seen.problem == nil && clock.Since(a.deps.Clock, a.wholeAt) < most
	if explained := a.explain(&end); !explained && whole && unknown {
		return nil
	}
	return &end
}

// ownEnd reports whether a rank has failed by itself, or was stopped by its shim for a reason of its own, and not because of
// another rank.
func ownEnd(e *shim.Exit) bool { return e.Cause != "" || failed(e) && !e.Stopped }

// first returns the exit of the rank that failed first; if none has failed, that of rank 0.
func (a *attempt) first() (end host.End) {
	for n, r := range a.ranks {
		if r.exit == nil {
			continue
		}
		own, before := ownEnd(r.exit), ownEnd(&end.Exit)
		switch {
		case !end.Found,
			own && (!before || r.exit.EndedAt.Before(end.Exit.EndedAt)),
			failed(r.exit) && !failed(&end.Exit):
			end = host.End{Exit: *r.exit, Found: true, Rank: n}
		}
	}
	return end
}

// bySignal reports whether the rank may have ended because of Slurm.
func bySignal(end host.End) bool {
	return end.Exit.Signal == int(syscall.SIGKILL) || end.Exit.Stopped && end.Exit.Cause == ""
}

// ownFailure reports whether the rank has failed by itself. Slurm's job is cancelled after that, possibly by an earlier agent.
func ownFailure(end host.End) bool {
	return end.Found && failed(&end.Exit) && !end.Exit.Stopped && end.Exit.Signal == 0
}

// over reports whether the Slurm job has ended for long enough that no exit file will appear any more.
func (a *attempt) over() bool {
	now := a.deps.Clock.Now()
	if a.absent > 0 {
		seen, _ := a.latest()
		return seen.number >= a.absent+absences-1 && now.Sub(a.absentAt) >= a.cfg.Settle
	}
	if a.overAt.IsZero() {
		return false
	}
	never := a.job.Nodes == "" && claimed(a.dir) == ""
	return never || now.Sub(a.overAt) >= a.cfg.Settle
}

// explain adds the reason that Slurm gives for the end of the attempt. It returns false if Slurm gives none.
func (a *attempt) explain(end *host.End) bool {
	limit := a.order.Batch.TimeLimit
	exit := end.Exit
	const inaccuracy = time.Minute // of Slurm's time limits
	atLimit := limit > 0 && end.Found && bySignal(*end) && exit.EndedAt.Sub(exit.StartedAt) >= limit-a.order.Grace-inaccuracy
	reason, over := a.job.end()
	switch {
	case atLimit || over && reason == executor.ReasonDeadline:
		end.Reason, end.Message = executor.ReasonDeadline, "Slurm ended the attempt at its time limit"
		return true
	case over && reason == executor.ReasonOOM:
		end.Reason, end.Message = reason, "Slurm ended the attempt because its memory was exhausted"
		return true
	case over && a.job.infrastructure(),
		over && a.job.State == "CANCELLED" && a.killedAt.IsZero() && !ownFailure(*end),
		!end.Found || !failed(&exit) && !exit.Stopped:
		end.Reason, end.Message = executor.ReasonLost, a.lost()
		return true
	}
	return false
}

// lost describes the end of a job without exit files.
func (a *attempt) lost() string {
	if a.job.State == "" || a.absent > 0 {
		return fmt.Sprintf("Slurm does not know job %s any more, and it left no exit status", recorded(a.dir))
	}
	text := fmt.Sprintf("Slurm ended job %s with state %s", a.job.ID, a.job.State)
	if a.job.Reason != "" {
		text += ", reason " + a.job.Reason
	}
	switch {
	case a.downNodes != "":
		text += "; down: " + a.downNodes
	case a.job.Nodes != "":
		text += ", on " + a.job.Nodes
	}
	if a.job.State == "FAILED" || a.job.State == "COMPLETED" {
		text += "; " + tail(filepath.Join(a.dir, "slurm.log"))
	}
	return text
}

// act passes requests to stop on to Slurm, and stops the other ranks after one has failed.
func (a *attempt) act(ctx context.Context, id string, requested *stop) error {
	now := a.deps.Clock.Now()
	if a.failedAt.IsZero() {
		for _, r := range a.ranks {
			if failed(r.exit) {
				a.failedAt = now
			}
		}
		if !a.failedAt.IsZero() {
			for n, r := range a.ranks {
				if r.exit != nil {
					continue
				}
				if err := (shim.Control{}).RequestStop(host.RankDir(a.dir, n), a.order.Grace); err != nil {
					return err
				}
			}
		}
	}
	var kill time.Time
	switch {
	case id == "" || a.job.ID != id || a.absent > 0 || a.job.Ended():
		return nil // the job is not known yet, or there is nothing to stop
	case requested != nil && a.job.Held():
		// The job may have started since the last query. Then it has its grace period, which a plain scancel would cut short.
		if now.Sub(a.killedAt) >= a.cfg.Interval {
			a.killedAt = now
			a.command(ctx, "scancel", "--quiet", "--state=PENDING", id)
		}
		return nil
	case requested != nil:
		kill = requested.At.Add(requested.Grace + killAfter)
	case !a.failedAt.IsZero():
		kill = a.failedAt.Add(a.order.Grace + killAfter)
	default:
		return nil
	}
	if !now.Before(kill) && now.Sub(a.killedAt) >= killAgain {
		a.killedAt = now
		a.command(ctx, "scancel", "--quiet", id)
		return nil
	}
	// A single rank is the batch script, so Slurm's signal reaches the shim alone and sooner than the file. In a step, the
	// signal would reach the command as well, which would get it twice: more ranks notice the file.
	if requested != nil && len(a.ranks) == 1 && a.job.ID != "" && (a.signaled == nil || requested.Grace < *a.signaled) {
		a.signaled = &requested.Grace
		a.command(ctx, "scancel", "--quiet", "--signal=TERM", "--batch", id)
	}
	return nil
}

// locate finds the nodes that are down if the job has ended because of its nodes, and why they are.
func (a *attempt) locate(ctx context.Context) {
	if !a.job.infrastructure() || a.job.Nodes == "" || a.located {
		return
	}
	a.located = true
	out, err := a.deps.Commands.Run(ctx, "sinfo", "--noheader", "--Node", "--nodes="+a.job.Nodes, "--format=%N|%T|%E")
	if err != nil {
		return // the message names all nodes of the job
	}
	a.downNodes = strings.Join(downNodes(string(out)), ", ")
}

// downNodes reads lines with the name, the state and the reason of nodes, and describes those that are down. While Slurm
// cleans up the job on a node that is down, it shows another state, such as mixed; but such a node has a reason.
func downNodes(text string) (found []string) {
	const fields = 3
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), "|", fields)
		if len(f) != fields {
			continue
		}
		node := f[0]
		if reason := given(f[2]); reason != "" && reason != "none" {
			node += " (" + reason + ")"
		} else if !down(f[1]) {
			continue
		}
		if !slices.Contains(found, node) { // a node has a line for each of its partitions
			found = append(found, node)
		}
	}
	return found
}

// command runs a command. A failure is logged; the caller repeats the command later, or the ranks do without it.
func (a *attempt) command(ctx context.Context, name string, args ...string) {
	if _, err := a.deps.Commands.Run(ctx, name, args...); err != nil && ctx.Err() == nil {
		a.deps.Log.WarnContext(ctx, "a command of Slurm has failed", "work", a.order.Key.String(), "error", err.Error())
	}
	a.soon()
}
