package device

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestFlow_View(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := h.begin()
	before := h.rows()
	r, err := h.View(h.as("usr_1"), person("usr_1"), c.User)
	require.NoError(t, err)
	require.Equal(t, before, h.rows(), "viewing changes nothing")
	require.Equal(t, "laptop", r.ClientName)
	require.Equal(t, here, r.ClientAddress)
	require.Equal(t, c.User, r.UserCode)
	require.Equal(t, StatePending, r.State)
	require.Equal(t, h.clock.Now(), r.CreatedAt.UTC())
	require.Equal(t, h.clock.Now().Add(TTL), r.ExpiresAt.UTC())
}

func TestFlow_View_decidedRequestOnlyForDecider(t *testing.T) {
	t.Parallel()
	for approve, want := range map[bool]string{true: StateApproved, false: StateDenied} {
		h := newHarness(t)
		c := h.begin()
		r, err := h.Decide(h.as("usr_1"), person("usr_1"), c.User, approve)
		require.NoError(t, err)
		require.Equal(t, want, r.State)
		h.pollCode(c)
		r, err = h.View(h.as("usr_1"), person("usr_1"), c.User)
		require.NoError(t, err)
		require.Equal(t, want, r.State, "the state does not show whether the token was fetched")
		_, err = h.View(h.as("usr_2"), person("usr_2"), c.User)
		require.Equal(t, fault.Absentf("device request", ""), fault.From(err))
		require.True(t, fault.Is(h.decide("usr_1", c, !approve), fault.Conflict))
		require.Equal(t, fault.Absentf("device request", ""), fault.From(h.decide("usr_2", c, !approve)))
	}
}

func TestFlow_Decide_concurrent(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for range 10 {
		h.exec(`DELETE FROM device_attempt`)
		c := h.begin()
		people := []string{"usr_1", "usr_1", "usr_2", "usr_2"}
		errs := make([]error, len(people))
		var wg sync.WaitGroup
		for i, account := range people {
			wg.Go(func() { errs[i] = h.decide(account, c, i%2 == 0) })
		}
		wg.Wait()
		won := -1
		for i, err := range errs {
			if err == nil {
				require.Equal(t, -1, won, "only one decision must be stored")
				won = i
			} else {
				require.True(t, fault.Is(err, fault.Conflict) || fault.Is(err, fault.Absent), "%v", err)
			}
		}
		require.NotEqual(t, -1, won)
		require.Equal(t, map[bool]string{true: "", false: wordDenied}[won%2 == 0], h.pollCode(c))
	}
}

func TestFlow_Decide_audit(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	yes, no := h.begin(), h.begin()
	a, err := h.Decide(h.as("usr_1"), person("usr_1"), yes.User, true)
	require.NoError(t, err)
	d, err := h.Decide(h.as("usr_2"), person("usr_2"), no.User, false)
	require.NoError(t, err)
	require.True(t, fault.Is(h.decide("usr_1", yes, false), fault.Conflict))
	require.Equal(t, []string{"device.approve usr_1 " + a.ID, "device.deny usr_2 " + d.ID}, h.audits())
}

func TestFlow_View_typedCodes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := h.begin()
	code, _ := plain(c.User)
	for _, typed := range []string{c.User, code, " " + code[:4] + " " + code[4:], code[:2] + "-" + code[2:]} {
		_, err := h.View(h.as("usr_1"), person("usr_1"), typed)
		require.NoError(t, err, typed)
	}
	for _, typed := range []string{"", code[1:], code + "B", "AEIOU-AEI", code[:7] + "é", code[:7] + "\x00"} {
		_, err := h.View(h.as("usr_1"), person("usr_1"), typed)
		require.True(t, fault.Is(err, fault.Absent), "%q: %v", typed, err)
		require.Equal(t, "no such device request", err.Error(), "errors are logged, and no log may hold a code")
	}
}

func TestFlow_Decide_rejectsDeviceSession(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, method := range []string{"device", "oauth"} {
		h.exec(`UPDATE session SET method = $1 WHERE id = 'ses_usr_1'`, method)
		c := h.begin()
		before := h.rows()
		_, err := h.Decide(h.as("usr_1"), person("usr_1"), c.User, true)
		require.True(t, fault.Is(err, fault.Forbidden), "%s: %v", method, err)
		require.Equal(t, before, h.rows())
		_, err = h.Decide(h.as("usr_1"), person("usr_1"), c.User, false)
		require.NoError(t, err, "a device session may deny a request")
	}
}
