package key

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Rotation creates new keys, on a schedule and on request.
type Rotation struct {
	Ring  *Ring
	Audit *audit.Log
	// Every is the age at which a key gets a successor.
	Every time.Duration
	// Lives is the longest lifetime of a token, by purpose.
	Lives map[Purpose]time.Duration
}

// Run retires keys whose tokens have all expired. It creates a successor for the newest key of a purpose if that key
// has signed for the time Every or is no longer valid. If replicas run at the same time, only one successor is created.
func (r *Rotation) Run(ctx context.Context) error {
	store := r.Ring.store
	if err := store.Retire(ctx); err != nil {
		return err
	}
	for _, purpose := range Purposes() {
		err := pg.InTx(ctx, store.Pool, func(ctx context.Context, tx pgx.Tx) error {
			newest, err := store.lock(ctx, tx, purpose)
			if err != nil || newest.verifies(store.Clock.Now()) && store.Clock.Now().Before(newest.SignsAt.Add(r.Every)) {
				return err
			}
			return r.next(ctx, tx, newest, purpose)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// errPending returns the error of a rotation that is requested too early: the last rotation published k, which does not
// sign yet.
func errPending(k Key) error {
	return fault.New(fault.Conflict, "rotation_pending", "the last rotation is not complete; the %s key %s signs from %s on", k.Purpose, k.ID, k.SignsAt.UTC().Format(time.RFC3339))
}

// Rotate creates a successor for the purpose's key. If revoke is true, all former keys of the purpose are revoked and
// the successor signs at once. Otherwise Rotate returns a conflict if the last successor does not sign yet.
func (r *Rotation) Rotate(ctx context.Context, purpose Purpose, revoke bool) error {
	store := r.Ring.store
	err := pg.InTx(ctx, store.Pool, func(ctx context.Context, tx pgx.Tx) error {
		newest, err := store.lock(ctx, tx, purpose)
		switch {
		case err != nil:
			return err
		case revoke:
			return r.replace(ctx, tx, newest, purpose)
		case newest.verifies(store.Clock.Now()) && newest.SignsAt.After(store.Clock.Now()):
			return errPending(newest)
		default:
			return r.next(ctx, tx, newest, purpose)
		}
	})
	if err != nil {
		return err
	}
	return r.Ring.Reload(ctx)
}

// next publishes a successor. It signs after the time lead, or at once if the newest key is not valid.
func (r *Rotation) next(ctx context.Context, tx pgx.Tx, newest Key, purpose Purpose) error {
	store := r.Ring.store
	signsAt := store.Clock.Now()
	if newest.verifies(signsAt) {
		signsAt = signsAt.Add(lead)
	}
	made, err := store.insert(ctx, tx, purpose, newest.Generation+1, signsAt)
	if err != nil {
		return err
	}
	if err := store.succeed(ctx, tx, purpose, made.Generation, signsAt.Add(r.Lives[purpose]+slack)); err != nil {
		return err
	}
	return r.record(ctx, tx, "key.rotate", made, []string{newest.ID})
}

// replace revokes all keys of the purpose, including those that do not sign yet, because an attacker who could read
// one of them could read them all. It creates a key that signs at once.
func (r *Rotation) replace(ctx context.Context, tx pgx.Tx, newest Key, purpose Purpose) error {
	store := r.Ring.store
	revoked, err := store.revoke(ctx, tx, purpose)
	if err != nil {
		return err
	}
	made, err := store.insert(ctx, tx, purpose, newest.Generation+1, store.Clock.Now())
	if err != nil {
		return err
	}
	return r.record(ctx, tx, "key.revoke", made, revoked)
}

func (r *Rotation) record(ctx context.Context, tx pgx.Tx, action string, made Key, former []string) error {
	return r.Audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "signing_key", TargetID: made.ID,
		Before: map[string]any{"keys": former}, After: map[string]any{"purpose": made.Purpose, "signs_at": made.SignsAt},
	})
}

// WithState is a key with its state.
type WithState struct {
	Key

	State State
}

// List returns a page of the keys of a purpose, newest first, and whether there are more. An empty purpose selects
// the keys of all purposes.
func (r *Rotation) List(ctx context.Context, purpose Purpose, p request.Page) ([]WithState, bool, error) {
	store := r.Ring.store
	live, err := store.live(ctx, store.Pool)
	if err != nil {
		return nil, false, err
	}
	now := store.Clock.Now()
	signing := map[Purpose]string{}
	for _, k := range live {
		if k.verifies(now) && !k.SignsAt.After(now) && signing[k.Purpose] == "" {
			signing[k.Purpose] = k.ID
		}
	}
	keys, err := store.list(ctx, purpose, p)
	if err != nil {
		return nil, false, err
	}
	keys, more := request.CutPage(keys, p)
	shown := make([]WithState, 0, len(keys))
	for _, k := range keys {
		shown = append(shown, WithState{k, k.state(now, signing[k.Purpose])})
	}
	return shown, more, nil
}
