package device

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

const (
	here      = "192.0.2.7"
	elsewhere = "192.0.2.8"
)

// opener records which sessions were opened.
type opener struct {
	mu     sync.Mutex
	opened []SessionRequest
	err    error
}

func (o *opener) OpenDevice(_ context.Context, _ pgx.Tx, in SessionRequest) (Token, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return Token{}, o.err
	}
	o.opened = append(o.opened, in)
	return Token{Access: secret.New("access"), Expires: 8 * time.Hour}, nil
}

// harness is a flow with a database of its own and two users.
type harness struct {
	*Flow

	t      *testing.T
	clock  *clock.Fake
	opener *opener
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	d := pgtest.New(t, pgtest.Schema{Name: "auth", Migrations: files})
	h := &harness{t: t, clock: clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)), opener: &opener{}}
	ids := id.NewSource(h.clock, rand.Reader)
	h.Flow = &Flow{
		Pool: d.Pool("auth"), Sessions: h.opener, Audit: audit.NewLog(h.clock, ids, "auth"), Clock: h.clock, IDs: ids, Rand: rand.Reader,
	}
	h.exec(`INSERT INTO account (id, username, role, password_hash, created_at) VALUES
		('usr_1', 'ann', 'operator', 'x', now()), ('usr_2', 'bob', 'admin', 'x', now())`)
	h.exec(`INSERT INTO session (id, account_id, method, client_address, created_at) VALUES
		('ses_usr_1', 'usr_1', 'password', '198.51.100.1', now()), ('ses_usr_2', 'usr_2', 'oidc', '198.51.100.1', now())`)
	return h
}

func (h *harness) exec(sql string, args ...any) {
	h.t.Helper()
	_, err := h.Pool.Exec(h.t.Context(), sql, args...)
	require.NoError(h.t, err)
}

// rows returns all rows of device_code as text.
func (h *harness) rows() (text string) {
	h.t.Helper()
	row := h.Pool.QueryRow(h.t.Context(), `SELECT COALESCE(string_agg(d::text, E'\n' ORDER BY id), '') FROM device_code d`)
	require.NoError(h.t, row.Scan(&text))
	return text
}

// audits lists the action, the actor and the target of each audit row, in order.
func (h *harness) audits() (actions []string) {
	h.t.Helper()
	rows, err := h.Pool.Query(h.t.Context(), `SELECT action || ' ' || actor_id || ' ' || target_id FROM audit ORDER BY seq`)
	require.NoError(h.t, err)
	actions, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(h.t, err)
	return actions
}

func person(account string) *authn.Caller {
	return &authn.Caller{Kind: authn.KindUser, Subject: account, Username: account, SessionID: "ses_" + account, Role: "operator", Epoch: 1, ClientAddr: "198.51.100.1"}
}

// as returns the context of a user's request.
func (h *harness) as(account string) context.Context {
	return authn.NewContext(h.t.Context(), person(account))
}

func (h *harness) begin() Codes {
	h.t.Helper()
	c, err := h.Begin(h.t.Context(), Start{ClientID: ClientID, ClientName: "laptop", Address: here})
	require.NoError(h.t, err)
	return c
}

func (h *harness) poll(c Codes) (Token, error) {
	return h.Poll(h.t.Context(), Poll{Code: c.Device, ClientID: ClientID, Address: here})
}

// pollCode returns the error code of the next poll, empty for a token.
func (h *harness) pollCode(c Codes) string {
	h.t.Helper()
	_, err := h.poll(c)
	if err == nil {
		return ""
	}
	return errorCode(h.t, err)
}

// errorCode returns the error code that a client gets. It requires that `detail` and `error` are equal and `code` is
// absent.
func errorCode(t *testing.T, err error) string {
	t.Helper()
	require.True(t, fault.Is(err, fault.Refused), "%v", err)
	e := fault.From(err)
	require.Equal(t, e.OAuth, e.Msg)
	require.Empty(t, e.Code)
	return e.OAuth
}

func (h *harness) decide(account string, c Codes, approve bool) error {
	_, err := h.Decide(h.as(account), person(account), c.User, approve)
	return err
}
