package shim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// UnconfirmedError is why a command that was held back must not start.
type UnconfirmedError struct {
	// Cause is CauseOrder if the command must not run any more, CauseSilence if the control plane does not respond, and empty
	// if a signal has ended the wait.
	Cause   Cause
	Message string
}

// Error implements error.
func (e *UnconfirmedError) Error() string { return e.Message }

// Confirm renews the lease of a command that a batch system has held back, before it starts: meanwhile, the control plane
// may have given the work up and started another execution. The error is an *UnconfirmedError if the command must not
// start. Confirm tries for the time within. A work without a lease may start.
func Confirm(ctx context.Context, dir string, c clock.Clock, within time.Duration) error {
	client := &http.Client{Timeout: renewTimeout}
	deadline := c.Now().Add(within)
	for {
		var l Lease // its URL may change
		if err := localfile.ReadJSON(leaseFile(dir), &l); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		lease, err := l.renew(ctx, client)
		switch {
		case err == nil && !lease.Stop:
			return nil
		case err == nil, (Control{}).StopRequested(dir):
			return &UnconfirmedError{Cause: CauseOrder, Message: "a stop was requested before the command started"}
		case errors.Is(err, errRefused):
			return &UnconfirmedError{Cause: CauseOrder, Message: "the control plane has given the work up before the command started"}
		case c.Now().After(deadline):
			return &UnconfirmedError{Cause: CauseSilence, Message: fmt.Sprintf(
				"the control plane did not confirm within %s that the attempt should still run; make %s reachable from the node: %v", within, l.URL, err)}
		}
		if err := clock.Sleep(ctx, c, confirmAgain); err != nil {
			return err
		}
	}
}

// confirmAgain is the pause before a confirmation is requested again.
const confirmAgain = 2 * time.Second

// Abstain records that the command in the folder was not started.
func (e *UnconfirmedError) Abstain(dir string, now time.Time) error {
	exit := Exit{Version: Version, Code: -1, Stopped: true, Cause: e.Cause, Message: e.Message, EndedAt: now}
	return localfile.WriteJSON(exitFile(dir), exit, localfile.PrivateMode)
}
