package device

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

func TestFlow_Poll_approved(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := h.begin()
	require.Equal(t, 15*time.Minute, c.TTL)
	require.Equal(t, 5*time.Second, c.Interval)
	require.Equal(t, wordPending, h.pollCode(c))
	require.NoError(t, h.decide("usr_1", c, true))
	require.Empty(t, h.opener.opened, "an approval opens no session itself")
	token, err := h.poll(c)
	require.NoError(t, err)
	require.Equal(t, "access", token.Access.Reveal())
	require.Equal(t, []SessionRequest{{AccountID: "usr_1", Epoch: 1, ClientName: "laptop", Address: here}}, h.opener.opened)
	for range 3 {
		require.Equal(t, wordGrant, h.pollCode(c), "a used code gives no token")
	}
	h.clock.Advance(2 * TTL)
	require.Equal(t, wordGrant, h.pollCode(c), "a used code stays used after it expires")
	require.Len(t, h.opener.opened, 1)
}

func TestFlow_Poll_denied(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := h.begin()
	require.NoError(t, h.decide("usr_1", c, false))
	require.Equal(t, wordDenied, h.pollCode(c))
	require.Equal(t, wordDenied, h.pollCode(c))
	require.True(t, fault.Is(h.decide("usr_1", c, true), fault.Conflict), "a decision is final")
	require.Equal(t, wordDenied, h.pollCode(c))
	require.Empty(t, h.opener.opened)
}

func TestFlow_Poll_expiry(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	waits, approved := h.begin(), h.begin()
	require.NoError(t, h.decide("usr_1", approved, true))
	h.clock.Advance(TTL - time.Microsecond)
	require.Equal(t, wordPending, h.pollCode(waits))
	_, err := h.View(h.as("usr_1"), person("usr_1"), waits.User)
	require.NoError(t, err)
	h.clock.Advance(time.Microsecond)
	require.Equal(t, wordExpired, h.pollCode(waits))
	require.Equal(t, wordExpired, h.pollCode(approved), "an approval ends when its code expires")
	require.True(t, fault.Is(h.decide("usr_1", waits, true), fault.Absent))
	require.Equal(t, wordExpired, h.pollCode(waits))
	require.Empty(t, h.opener.opened)
}

func TestFlow_Decide_justBeforeExpiry(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := h.begin()
	h.clock.Advance(TTL - time.Microsecond)
	require.NoError(t, h.decide("usr_1", c, true))
	require.Empty(t, h.pollCode(c))
}

func TestFlow_Poll_earlyPollsLengthenInterval(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c, other := h.begin(), h.begin()
	require.Equal(t, wordPending, h.pollCode(c), "the first poll may come at once")
	for _, step := range []struct {
		after time.Duration
		want  string
	}{
		{5 * time.Second, wordPending},
		{5*time.Second - leeway, wordPending},
		{5*time.Second - leeway - time.Microsecond, wordSlow},     // this poll increases the interval to 10 s
		{5 * time.Second, wordSlow},                               // 15 s
		{15 * time.Second, wordPending},                           // the interval stays
		{15*time.Second - leeway - time.Microsecond, wordSlow},    // 20 s
		{20*time.Second - leeway, wordPending},                    // the interval stays
		{0, wordSlow},                                             // 25 s
		{25*time.Second - leeway - time.Microsecond, wordSlow},    // 30 s
		{30*time.Second - leeway + time.Microsecond, wordPending}, // the interval stays
	} {
		h.clock.Advance(step.after)
		require.Equal(t, step.want, h.pollCode(c), "after %s", step.after)
	}
	require.Equal(t, wordPending, h.pollCode(other), "the other flow keeps its interval")
	require.NoError(t, h.decide("usr_1", c, true))
	require.Empty(t, h.pollCode(c), "the interval does not apply to an approved flow")
}

func TestFlow_Poll_stolenCode(t *testing.T) {
	t.Parallel()
	for name, approve := range map[string]bool{"waiting": false, "approved": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			c := h.begin()
			if approve {
				require.NoError(t, h.decide("usr_1", c, true))
			}
			before := h.rows()
			for name, p := range map[string]Poll{
				"another address": {Code: c.Device, ClientID: ClientID, Address: elsewhere},
				"no address":      {Code: c.Device, ClientID: ClientID},
				"another client":  {Code: c.Device, ClientID: "other", Address: here},
				"no client":       {Code: c.Device, Address: here},
				"the user code":   {Code: secret.New(c.User), ClientID: ClientID, Address: here},
				"another case":    {Code: secret.New("DVC" + c.Device.Reveal()[3:]), ClientID: ClientID, Address: here},
				"nothing":         {ClientID: ClientID, Address: here},
			} {
				_, err := h.Poll(t.Context(), p)
				require.Equal(t, wordGrant, errorCode(t, err), name)
			}
			require.Equal(t, before, h.rows())
			require.Equal(t, map[bool]string{false: wordPending, true: ""}[approve], h.pollCode(c), "the owner's flow continues")
		})
	}
}

func TestFlow_Poll_ipv6Prefix(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c, err := h.Begin(t.Context(), Start{ClientID: ClientID, ClientName: "x", Address: "2001:db8:1:2::1"})
	require.NoError(t, err)
	for address, want := range map[string]string{"2001:db8:1:2:ffff::9": wordPending, "2001:db8:1:3::1": wordGrant} {
		_, err := h.Poll(t.Context(), Poll{Code: c.Device, ClientID: ClientID, Address: address})
		require.Equal(t, want, errorCode(t, err), address)
	}
}

func TestFlow_Poll_concurrentAfterApproval(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for range 10 {
		h.exec(`DELETE FROM device_attempt`)
		h.opener.opened = nil
		c := h.begin()
		require.NoError(t, h.decide("usr_1", c, true))
		var tokens, refusals atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				switch _, err := h.poll(c); {
				case err == nil:
					tokens.Add(1)
				case fault.From(err).OAuth == wordGrant:
					refusals.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, tokens.Load())
		require.EqualValues(t, 7, refusals.Load())
		require.Len(t, h.opener.opened, 1)
	}
}

func TestFlow_Poll_approverMayNotSignIn(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"disabled":       `UPDATE account SET disabled_at = now() WHERE id = 'usr_1'`,
		"a raised epoch": `UPDATE account SET epoch = epoch + 1 WHERE id = 'usr_1'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			c := h.begin()
			require.NoError(t, h.decide("usr_1", c, true))
			h.exec(sql)
			require.Equal(t, wordDenied, h.pollCode(c))
			h.exec(`UPDATE account SET disabled_at = NULL, epoch = 1`)
			require.Equal(t, wordDenied, h.pollCode(c), "the flow stays denied")
			require.Empty(t, h.opener.opened)
		})
	}
}

func TestFlow_Poll_failureKeepsApproval(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := h.begin()
	require.NoError(t, h.decide("usr_1", c, true))
	before := h.rows()
	h.opener.err = errors.New("broken")
	_, err := h.poll(c)
	require.ErrorContains(t, err, "broken")
	require.Equal(t, before, h.rows())
	h.opener.err = nil
	require.Empty(t, h.pollCode(c))
}

func TestFlow_Begin_storesHashes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := h.begin()
	code, ok := plain(c.User)
	require.True(t, ok)
	var hash, userHashed []byte
	require.NoError(t, h.Pool.QueryRow(t.Context(), `SELECT hash, user_code_hash FROM device_code`).Scan(&hash, &userHashed))
	require.Equal(t, secret.Hash(c.Device.Reveal()), hash)
	require.Equal(t, userHash(code), userHashed)
	for _, text := range []string{c.Device.Reveal(), c.User, code} {
		require.NotContains(t, h.rows(), text)
	}
}

func TestFlow_DeleteCodes_endedFlows(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := h.begin()
	h.clock.Advance(TTL + time.Hour)
	n, err := h.DeleteCodes(t.Context(), h.clock.Now().Add(-time.Hour), 10)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, wordExpired, h.pollCode(c))
	n, err = h.DeleteCodes(t.Context(), h.clock.Now().Add(time.Microsecond-time.Hour), 10)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Equal(t, wordGrant, h.pollCode(c))
	require.Empty(t, h.rows())
}
