package shim

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// Sweep ends the processes that a killed shim left behind and returns when no process is left. The kernel
// has killed the command together with the shim. Sweep finds the other processes by their cgroup, their
// process group and the variable MarkName in their environment.
func Sweep(ctx context.Context, clk clock.Clock, dir string) error {
	var s Start
	if err := localfile.ReadJSON(startFile(dir), &s); err != nil {
		return err
	}
	var r Running
	if err := localfile.ReadJSON(runFile(dir), &r); err != nil {
		return err
	}
	for {
		left := s.Limits.Kill()
		left = r.Command.SignalGroup(syscall.SIGKILL) || left
		for _, p := range WithVariable(MarkName, s.Mark) {
			left = p.Signal(syscall.SIGKILL) || left
		}
		if !left {
			return s.Limits.Remove()
		}
		if err := clock.Sleep(ctx, clk, 10*time.Millisecond); err != nil {
			return fmt.Errorf("end the remaining processes of %s: %w", s.Mark, err)
		}
	}
}
