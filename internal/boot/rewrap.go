package boot

import (
	"context"
	"time"

	"github.com/signalbox-dev/signalbox/internal/rewrap"
	"github.com/signalbox-dev/signalbox/platform/run"
)

// SecretKeeper is a service with columns whose values are sealed with the installation's keyring.
type SecretKeeper interface{ Sealed() []rewrap.Column }

// How often a process looks for values under a former key. They occur only after a start with another keyring,
// or if a process with the former keyring was still writing.
const (
	rewrapEvery  = time.Hour
	rewrapJitter = 10 * time.Minute
)

// rewrapper returns the worker that moves sealed values to the first key of the keyring.
func (e *Env) rewrapper(keeper SecretKeeper) run.Worker {
	name := e.Name + ".rewrap"
	round := func(ctx context.Context) error {
		moved, err := rewrap.Run(ctx, e.Pool, e.Keyring, keeper.Sealed()...)
		if moved > 0 {
			e.Log.InfoContext(ctx, "moved sealed values to the first key of the keyring", "moved", moved)
		}
		return err
	}
	return run.Worker{Name: name, Run: func(ctx context.Context) error {
		return run.Loop(ctx, e.Clock, rewrapEvery, rewrapJitter, run.Logged(e.Log, name, round))
	}}
}
