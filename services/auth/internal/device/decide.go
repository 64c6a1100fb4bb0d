package device

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/auth/internal/loginlimit"
)

// View returns the request with the typed user code, for the user who decides on it. It does not change the request.
func (f *Flow) View(ctx context.Context, c *authn.Caller, typed string) (Request, error) {
	return f.guess(ctx, c, typed, func(code string) (Request, bool, error) {
		return loadRequest(ctx, f.Pool, userHash(code), c.Subject, f.Clock.Now())
	})
}

// Decide stores the user's decision. A request can be decided only once. Decide opens no session; the next poll of the
// device opens one.
func (f *Flow) Decide(ctx context.Context, c *authn.Caller, typed string, approve bool) (Request, error) {
	state, action := StateDenied, "device.deny"
	if approve {
		state, action = StateApproved, "device.approve"
	}
	return f.guess(ctx, c, typed, func(code string) (r Request, ok bool, err error) {
		err = pg.InTx(ctx, f.Pool, func(ctx context.Context, tx pgx.Tx) error {
			if approve {
				if err := MayApprove(ctx, tx, c); err != nil {
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

// MayApprove returns an error unless a sign-in opened the caller's session. Otherwise a device could approve another
// device before its own token expires, and that device could approve a third one, so a stolen token would give access
// forever. Any session may deny a request.
func MayApprove(ctx context.Context, tx pgx.Tx, c *authn.Caller) error {
	device, err := byDevice(ctx, tx, c.SessionID)
	if err != nil || !device {
		return err
	}
	return fault.New(fault.Forbidden, "device_session", "a session that a device or program opened cannot approve a device or program; sign in with a browser")
}

// decided returns a conflict if the same user has already decided the request. It returns nil if there is no request
// that the user may see.
func (f *Flow) decided(ctx context.Context, tx pgx.Tx, hash []byte, c *authn.Caller) error {
	r, ok, err := loadRequest(ctx, tx, hash, c.Subject, f.Clock.Now())
	if err != nil || !ok {
		return err
	}
	return fault.New(fault.Conflict, "device_decided", "the device request is already %s", r.State)
}

// guess calls find with a typed user code. If no request has the code, the attempt counts against the user and the
// client address. It is counted before the call, so that concurrent guesses do not exceed the limit.
func (f *Flow) guess(ctx context.Context, c *authn.Caller, typed string, find func(code string) (Request, bool, error)) (Request, error) {
	ofAccount, err := f.take(ctx, accountMisses(), c.Subject, "")
	if err != nil {
		return Request{}, err
	}
	ofAddress, err := f.take(ctx, addressMisses(), loginlimit.Key(c.ClientAddr), "")
	if err != nil {
		return Request{}, err
	}
	// The error omits the typed code, because errors are logged, and a code with one wrong letter almost reveals the
	// valid code.
	absent := fault.Absentf("device request", "")
	code, ok := plain(typed)
	if !ok {
		return Request{}, absent
	}
	r, found, err := find(code)
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
