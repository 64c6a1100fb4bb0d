package shim

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/agent/host/files"
	"github.com/signalbox-dev/signalbox/agent/host/process"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Sweep ends what a killed shim left behind: its command dies with it, and the
// rest is found in the cgroup, in the process group, and by the mark in the
// environment. It returns when nothing is left.
func Sweep(ctx context.Context, clk clock.Clock, dir string) error {
	var s Start
	if err := files.ReadJSON(startFile(dir), &s); err != nil {
		return err
	}
	var r Running
	if err := files.ReadJSON(runFile(dir), &r); err != nil {
		return err
	}
	for {
		left := s.Limits.Kill()
		left = r.Command.SignalGroup(syscall.SIGKILL) || left
		for _, p := range process.Marked(MarkName, s.Mark) {
			left = p.Signal(syscall.SIGKILL) || left
		}
		if !left {
			return s.Limits.Remove()
		}
		if err := clock.Sleep(ctx, clk, 10*time.Millisecond); err != nil {
			return fmt.Errorf("end what was left of %s: %w", s.Mark, err)
		}
	}
}
