package boot

import (
	"context"
	"time"

	"github.com/signalbox-dev/signalbox/internal/rewrap"
	"github.com/signalbox-dev/signalbox/platform/run"
)

// SecretKeeper is a service that keeps values under the installation's keyring.
type SecretKeeper interface{ Sealed() []rewrap.Column }

// How often a process looks for values under a former key. Only a start with another ring gives any, or a
// process that was still writing with the former one.
const (
	rewrapEvery  = time.Hour
	rewrapJitter = 10 * time.Minute
)

// rewrapper moves sealed values to the key that the ring seals with.
func (e *Env) rewrapper(keeper SecretKeeper) run.Worker {
	name := e.Name + ".rewrap"
	round := func(ctx context.Context) error {
		moved, err := rewrap.Run(ctx, e.Pool, e.Keyring, keeper.Sealed()...)
		if moved > 0 {
			e.Log.InfoContext(ctx, "sealed values are under the keyring's first key now", "moved", moved)
		}
		return err
	}
	return run.Worker{Name: name, Run: func(ctx context.Context) error {
		return run.Loop(ctx, e.Clock, rewrapEvery, rewrapJitter, run.Logged(e.Log, name, round))
	}}
}
