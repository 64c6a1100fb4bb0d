package boot

import (
	"context"
	"time"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/process"
)

// SecretKeeper is a service with columns that are encrypted with the keyring of the installation.
type SecretKeeper interface{ Sealed() []pg.SealedColumn }

// How often a process looks for values that are encrypted with a former key. Such values occur only after the keyring
// was changed, or while another process still writes with the former keyring.
const (
	resealEvery  = time.Hour
	resealJitter = 10 * time.Minute
)

// resealer returns the worker that re-encrypts values with the first key of the keyring.
func (e *Env) resealer(keeper SecretKeeper) process.Worker {
	name := e.Name + ".reseal"
	round := func(ctx context.Context) error {
		moved, err := pg.Reseal(ctx, e.Pool, e.Keyring, keeper.Sealed()...)
		if moved > 0 {
			e.Log.InfoContext(ctx, "re-encrypted values with the first key of the keyring", "moved", moved)
		}
		return err
	}
	return process.Worker{Name: name, Run: func(ctx context.Context) error {
		return process.Loop(ctx, e.Clock, resealEvery, resealJitter, process.Logged(e.Log, name, round))
	}}
}
