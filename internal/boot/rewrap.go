package boot

import (
	"context"
	"time"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/process"
)

// SecretKeeper is a service with columns whose values are sealed with the installation's keyring.
type SecretKeeper interface{ Sealed() []pg.SealedColumn }

// How often a process looks for values under a former key. They occur only after a start with another keyring,
// or if a process with the former keyring was still writing.
const (
	rewrapEvery  = time.Hour
	rewrapJitter = 10 * time.Minute
)

// rewrapper returns the worker that moves sealed values to the first key of the keyring.
func (e *Env) rewrapper(keeper SecretKeeper) process.Worker {
	name := e.Name + ".rewrap"
	round := func(ctx context.Context) error {
		moved, err := pg.Reseal(ctx, e.Pool, e.Keyring, keeper.Sealed()...)
		if moved > 0 {
			e.Log.InfoContext(ctx, "moved sealed values to the first key of the keyring", "moved", moved)
		}
		return err
	}
	return process.Worker{Name: name, Run: func(ctx context.Context) error {
		return process.Loop(ctx, e.Clock, rewrapEvery, rewrapJitter, process.Logged(e.Log, name, round))
	}}
}
