package host

import (
	"context"
	"errors"
	"fmt"
)

// Shutdown prepares the planned end of Run, which must still be running. If stopWorks is false, the works keep running
// under their shims, and Shutdown only marks them: if they end before the next executor starts, because the container
// or the machine was stopped, they count as stopped and not as lost. If stopWorks is true, Shutdown ends every process
// within about two seconds. Attempts then end with the reason `stopped`, which Run records and reports, and the next
// executor starts the engines again.
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

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
