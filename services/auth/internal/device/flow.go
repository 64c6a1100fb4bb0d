package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/loginlimit"
)

// SessionRequest describes the session that a device gets after its approval.
type SessionRequest struct {
	AccountID           string
	Epoch               int64
	ClientName, Address string
}

// sessions opens the session of an approved device in tx and signs its access token.
type sessions interface {
	OpenDevice(ctx context.Context, tx pgx.Tx, o SessionRequest) (Token, error)
}

// Flow runs the device flow.
type Flow struct {
	Pool     *pgxpool.Pool
	Sessions sessions
	Audit    *audit.Log
	Clock    clock.Clock
	IDs      *id.Source
	Rand     io.Reader
}

// draws is the maximum number of attempts to generate unused codes. About one flow in a million needs a second
// attempt.
const draws = 5

// Begin starts a flow and returns its codes. It returns an error if the address has begun too many flows, or if too
// many flows are pending for the address or in total.
func (f *Flow) Begin(ctx context.Context, s Start) (Codes, error) {
	key := loginlimit.Key(s.Address)
	if _, err := f.take(ctx, beginnings(), key, wordBusy); err != nil {
		return Codes{}, err
	}
	for range draws {
		c, stored, err := f.begin(ctx, s, key)
		if err != nil || stored {
			return c, err
		}
	}
	return Codes{}, errors.New("generate a device code: every attempt gave a code that is in use")
}

func (f *Flow) begin(ctx context.Context, s Start, key string) (c Codes, stored bool, err error) {
	device, err := secret.Mint(f.Rand, secret.KindDevice)
	if err != nil {
		return Codes{}, false, fmt.Errorf("mint a device code: %w", err)
	}
	user, err := drawUser(f.Rand)
	if err != nil {
		return Codes{}, false, err
	}
	row := beginning{id: f.IDs.New(id.DeviceRequest), hash: secret.Hash(device.Reveal()), userHash: userHash(user), start: s, addressKey: key}
	err = pg.InTx(ctx, f.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := lockBeginnings(ctx, tx); err != nil {
			return err
		}
		row.createdAt = f.Clock.Now()
		row.expiresAt = row.createdAt.Add(TTL)
		ofAddress, inAll, err := countOpen(ctx, tx, key, row.createdAt)
		switch {
		case err != nil:
			return err
		case ofAddress >= openOfAddress:
			return fault.New(fault.Limited, "device_open", "too many device codes from this address are waiting for approval; try again in a minute").
				WithOAuth(wordBusy).WithRetryAfter(time.Minute)
		case inAll >= openInAll:
			return fault.New(fault.Unavailable, "device_open", "too many device codes are waiting for approval; try again in a minute").
				WithOAuth(wordBusy).WithRetryAfter(time.Minute)
		}
		stored, err = insertCode(ctx, tx, row)
		return err
	})
	if err != nil || !stored {
		return Codes{}, false, err
	}
	return Codes{Device: device, User: shown(user), TTL: TTL, Interval: Interval}, true, nil
}

// Poll returns the token of an approved flow, once, and otherwise the RFC's error code for the state of the flow.
//
// If the code comes from another address or client than the ones that began the flow, Poll treats the code as unknown
// and the flow does not change. A thief therefore learns nothing, and can neither end the flow nor slow down the
// waiting device.
func (f *Flow) Poll(ctx context.Context, p Poll) (Token, error) {
	key := loginlimit.Key(p.Address)
	if _, err := f.take(ctx, polls(), key, wordSlow); err != nil {
		return Token{}, err
	}
	hash, ok := secret.Parse(secret.KindDevice, p.Code.Reveal())
	if !ok {
		return Token{}, refused(wordGrant)
	}
	var t Token
	word := ""
	err := pg.InTx(ctx, f.Pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		t, word, err = f.poll(ctx, tx, bound{hash: hash, clientID: p.ClientID, addressKey: key})
		return err
	})
	switch {
	case err != nil:
		return Token{}, err
	case word != "":
		// Return the refusal outside of the transaction, because the transaction must commit the new interval or the
		// denial.
		return Token{}, refused(word)
	}
	return t, nil
}

func (f *Flow) poll(ctx context.Context, tx pgx.Tx, b bound) (Token, string, error) {
	now := f.Clock.Now()
	a, approved, err := use(ctx, tx, b, now)
	if err != nil {
		return Token{}, "", err
	}
	if approved {
		return f.open(ctx, tx, a)
	}
	fast, waits, err := pace(ctx, tx, b, now)
	switch {
	case err != nil:
		return Token{}, "", err
	case fast:
		return Token{}, wordSlow, nil
	case waits:
		return Token{}, wordPending, nil
	}
	state, expires, err := stateOf(ctx, tx, b)
	return Token{}, ended(state, now.Before(expires)), err
}

// ended returns the error code for a flow that gives no token and is not pending. The parameter holds is false if the
// codes of the flow have expired.
func ended(state string, holds bool) string {
	switch {
	case state == "" || state == stateUsed:
		return wordGrant
	case !holds:
		return wordExpired
	case state == StateDenied:
		return wordDenied
	default:
		// The flow was decided between two statements of this poll. The next poll returns the result.
		return wordPending
	}
}

// open opens the device's session and signs its token. If the user who approved the flow has been disabled or has
// changed the password since then, it denies the flow instead.
func (f *Flow) open(ctx context.Context, tx pgx.Tx, a approval) (Token, string, error) {
	if may, err := mayApprove(ctx, tx, a); err != nil || !may {
		if err == nil {
			err = void(ctx, tx, a.id)
		}
		return Token{}, wordDenied, err
	}
	t, err := f.Sessions.OpenDevice(ctx, tx, SessionRequest{
		AccountID: a.accountID, Epoch: a.epoch, ClientName: a.clientName, Address: a.clientAddress,
	})
	if err != nil {
		return Token{}, "", fmt.Errorf("open the device's session: %w", err)
	}
	return t, "", nil
}

// DeleteCodes deletes flows whose codes expired before the given time, at most limit of them, and returns their number.
// Until a flow is deleted, its polls get expired_token, not the error of an unknown code.
func (f *Flow) DeleteCodes(ctx context.Context, before time.Time, limit int) (int64, error) {
	return deleteCodes(ctx, f.Pool, before, limit)
}

// Sweep deletes attempts that are older than twice the longest window.
func (f *Flow) Sweep(ctx context.Context) error {
	now, err := pg.Now(ctx, f.Pool)
	if err != nil {
		return err
	}
	return forget(ctx, f.Pool, now.Add(-2*longestWindow()))
}
