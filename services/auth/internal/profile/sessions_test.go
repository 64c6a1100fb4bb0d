package profile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	second  = "ses_01k00000000000000000000002"
	foreign = "ses_01k00000000000000000000003"
)

func (d *harness) list(in *authv1.ListSessionsRequest) (ids []string, sessions []*authv1.UserSession) {
	d.t.Helper()
	out, err := d.ListSessions(d.ctx(), in)
	require.NoError(d.t, err)
	for _, s := range out.GetSessions() {
		ids = append(ids, s.GetId())
	}
	return ids, out.GetSessions()
}

func TestServer_ListSessions(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.exec(`UPDATE session SET method = 'device', client_name = 'cli 1.2' WHERE id = $1`, second)
	ids, all := d.list(&authv1.ListSessionsRequest{})
	require.Equal(t, []string{second, mine}, ids, "the newest session comes first")
	require.Equal(t, []bool{false, true}, []bool{all[0].GetCurrent(), all[1].GetCurrent()})
	require.Equal(t, []string{"device", "cli 1.2", "192.0.2.1"}, []string{all[0].GetMethod(), all[0].GetClientName(), all[0].GetClientAddress()})
	require.Nil(t, all[1].ClientName)
	require.True(t, d.clock.Now().Add(time.Second).Equal(all[0].GetLastUsedAt().AsTime()))
	ids, _ = d.list(&authv1.ListSessionsRequest{Limit: new(int32(1)), Offset: new(int32(1))})
	require.Equal(t, []string{mine}, ids)
	_, err := d.ListSessions(d.ctx(), &authv1.ListSessionsRequest{Limit: new(int32(501))})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

func TestServer_ListSessions_stableOrderAcrossPages(t *testing.T) {
	t.Parallel()
	d := open(t)
	begun, _ := d.list(&authv1.ListSessionsRequest{Limit: new(int32(1))})
	d.exec(`UPDATE session SET last_used_at = last_used_at + interval '1 hour' WHERE id = $1`, mine)
	rest, _ := d.list(&authv1.ListSessionsRequest{Limit: new(int32(1)), Offset: new(int32(1))})
	require.Equal(t, []string{second, mine}, append(begun, rest...))
}

func TestServer_RevokeSession_ownOnly(t *testing.T) {
	t.Parallel()
	d := open(t)
	revoke := func(id string) error {
		_, err := d.RevokeSession(d.ctx(), &authv1.RevokeSessionRequest{SessionId: id})
		return err
	}
	for _, id := range []string{foreign, "ses_01k00000000000000000000099"} {
		require.True(t, fault.Is(revoke(id), fault.Absent), id)
	}
	require.True(t, fault.Is(revoke("usr_1"), fault.Invalid))
	require.NoError(t, revoke(second))
	require.True(t, fault.Is(revoke(second), fault.Absent), "an ended session is absent")
	require.Equal(t, 1, d.count(`session WHERE revoked_at IS NOT NULL`))
	require.NoError(t, revoke(mine), "the calling session may be revoked")
}

func TestServer_RevokeOtherSessions(t *testing.T) {
	t.Parallel()
	d := open(t)
	_, err := d.RevokeOtherSessions(d.ctx(), &authv1.RevokeOtherSessionsRequest{})
	require.NoError(t, err)
	ids, _ := d.list(&authv1.ListSessionsRequest{})
	require.Equal(t, []string{mine}, ids)
	require.Equal(t, 2, d.count(`session WHERE account_id = $1 AND revoked_at IS NULL`, eve))
}
