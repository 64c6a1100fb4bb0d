package shim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// endingTime is how long the kernel may take to end processes that were killed.
const endingTime = time.Minute

// Sweep ends the processes that a killed shim left behind and returns when no process is left. The kernel has killed
// the command together with the shim. Sweep finds the other processes by their cgroup, their process group and the
// variable MarkName in their environment. A killed process loses these marks before it has ended, so Sweep also waits
// for the processes that it has found, and for the boundary's first process, which ends last. It returns an error if
// the kernel does not end them within a minute.
func Sweep(ctx context.Context, clk clock.Clock, dir string) error {
	var s Start
	if err := localfile.ReadJSON(startFile(dir), &s); err != nil {
		return err
	}
	var r Running
	if err := localfile.ReadJSON(runFile(dir), &r); err != nil {
		return err
	}
	ending, deadline := map[Identity]bool{r.Command: true, r.First: true}, clk.Now().Add(endingTime)
	for {
		marked := WithVariable(MarkName, s.Mark) // before the kills, which remove the marks
		left := s.Limits.Kill()
		left = r.Command.SignalGroup(syscall.SIGKILL) || left
		for _, p := range marked {
			left, ending[p] = p.Signal(syscall.SIGKILL) || left, true
		}
		maps.DeleteFunc(ending, func(p Identity, _ bool) bool { return !p.Alive() })
		var busy error
		if !left && len(ending) == 0 {
			// A cgroup no longer lists a process that is ending, but it can be removed only after the end.
			if busy = s.Limits.Remove(); busy == nil {
				return nil
			}
		}
		if left {
			deadline = clk.Now().Add(endingTime)
		} else if clk.Now().After(deadline) {
			return cmp.Or(busy, fmt.Errorf("%d processes of %s were killed a minute ago, but the kernel has not ended them", len(ending), s.Mark))
		}
		if err := clock.Sleep(ctx, clk, 10*time.Millisecond); err != nil {
			return fmt.Errorf("end the remaining processes of %s: %w", s.Mark, err)
		}
	}
}
