package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// removing is the beginning of the name of a work's folder while it is removed.
const removing = ".removing-"

// removeAtLast removes the folder of the work. It tries again until it succeeds, because the next execution of the work
// waits for the removal. It returns false if ctx ends before.
func (w *work) removeAtLast(ctx context.Context) bool {
	for try := 0; ; try++ {
		err := w.runner().Discard(ctx, w.path("run"))
		if err == nil {
			err = w.remove()
		}
		if err == nil {
			return true
		}
		w.host.deps.Log.ErrorContext(ctx, "cannot remove the folder of the work; trying again", "work", w.key.String(), "error", err.Error())
		if clock.Sleep(ctx, w.host.deps.Clock, w.host.restart.Wait(try)) != nil {
			return false
		}
	}
}

// remove deletes the folder. It renames the folder first, so that a partly deleted folder is not loaded as
// a work.
func (w *work) remove() error {
	// Usually the shim has removed the cgroup. If the cgroup still contains processes, a later executor removes
	// it.
	_ = w.host.holder.Plan(w.groupName(), executor.Limits{}).Remove()
	trash := filepath.Join(filepath.Dir(w.dir), removing+filepath.Base(w.dir))
	if err := localfile.RemoveTree(trash); err != nil {
		return fmt.Errorf("remove the leftover folder: %w", err)
	}
	if err := os.Rename(w.dir, trash); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("rename the folder: %w", err)
	}
	if err := localfile.RemoveTree(trash); err != nil {
		return fmt.Errorf("remove the folder: %w", err)
	}
	return nil
}

// removeLeftover removes the folder of a work that was only partly created or removed. None of its processes is running,
// so the executor can start even if the folder cannot be removed.
func (h *Host) removeLeftover(dir string) {
	if err := localfile.RemoveTree(dir); err != nil {
		h.deps.Log.ErrorContext(context.Background(), "cannot remove the folder of an incomplete work; the next start tries again", "folder", dir, "error", err.Error())
	}
}
