package device

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/auth/internal/limit"
)

// Look tells the person who asks to be let in, and changes nothing.
func (f *Flow) Look(ctx context.Context, c *authn.Caller, typed string) (Request, error) {
	return f.guess(ctx, c, typed, func(code string) (Request, bool, error) {
		return loadRequest(ctx, f.Pool, userHash(code), c.Subject, f.Clock.Now())
	})
}

// Decide takes the person's decision, once. It opens nothing by itself: the device's next poll does.
func (f *Flow) Decide(ctx context.Context, c *authn.Caller, typed string, approve bool) (Request, error) {
	state, action := StateDenied, "device.deny"
	if approve {
		state, action = StateApproved, "device.approve"
	}
	return f.guess(ctx, c, typed, func(code string) (r Request, ok bool, err error) {
		err = pg.InTx(ctx, f.Pool, func(ctx context.Context, tx pgx.Tx) error {
			if approve {
				if err := MayLetIn(ctx, tx, c); err != nil {
					return err
				}
			}
			now := f.Clock.Now()
			if r, ok, err = decide(ctx, tx, userHash(code), state, c.Subject, c.Epoch, now); err != nil {
				return err
			}
			if !ok {
				return f.decided(ctx, tx, userHash(code), c)
			}
			return f.Audit.Record(ctx, tx, audit.Entry{
				Action: action, TargetKind: "device_request", TargetID: r.ID,
				After: map[string]string{"client_name": r.ClientName, "client_address": r.ClientAddress, "state": r.State},
			})
		})
		return r, ok, err
	})
}

// MayLetIn refuses approval by a session that was not opened by a sign-in: a device's token would let in another
// device, or a program, each time before it ends, and so a stolen one would never end. To deny is open to all.
func MayLetIn(ctx context.Context, tx pgx.Tx, c *authn.Caller) error {
	device, err := byDevice(ctx, tx, c.SessionID)
	if err != nil || !device {
		return err
	}
	return fault.New(fault.Forbidden, "device_session", "A session of a device lets in no other device and no program: sign in in a browser")
}

// decided is the conflict of a person who decides for the second time; nil where he sees no such request.
func (f *Flow) decided(ctx context.Context, tx pgx.Tx, hash []byte, c *authn.Caller) error {
	r, ok, err := loadRequest(ctx, tx, hash, c.Subject, f.Clock.Now())
	if err != nil || !ok {
		return err
	}
	return fault.New(fault.Conflict, "device_decided", "This request is %s already", r.State)
}

// guess runs what a user code is asked for. What finds nothing counts against the person and his address;
// it is counted before it is run, so that guesses at once are not more than guesses in turn.
func (f *Flow) guess(ctx context.Context, c *authn.Caller, typed string, ask func(code string) (Request, bool, error)) (Request, error) {
	ofAccount, err := f.take(ctx, accountMisses(), c.Subject, "")
	if err != nil {
		return Request{}, err
	}
	ofAddress, err := f.take(ctx, addressMisses(), limit.Key(c.ClientAddr), "")
	if err != nil {
		return Request{}, err
	}
	// Without what was typed: errors are logged, and a code that is mistyped by a letter tells one that waits.
	absent := fault.Absentf("device request", "")
	code, ok := plain(typed)
	if !ok {
		return Request{}, absent
	}
	r, found, err := ask(code)
	if err == nil && !found {
		return Request{}, absent
	}
	if ferr := forgive(ctx, f.Pool, []int64{ofAccount, ofAddress}); ferr != nil {
		return Request{}, ferr
	}
	if err != nil {
		return Request{}, err
	}
	r.UserCode = shown(code)
	return r, nil
}
