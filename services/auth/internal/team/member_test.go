package team

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

func TestLeadRole_effectiveAtNextCall(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	team, name := b.make("speech"), "New"
	rename := func(who string) fault.Kind {
		_, err := b.UpdateTeam(b.as(who, authn.NeedManage), &authv1.UpdateTeamRequest{TeamId: team.GetId(), Name: &name})
		return kindOf(err)
	}
	require.Equal(t, fault.Forbidden, rename(maxi))
	_, err := b.PutTeamMember(b.as(lea, authn.NeedManage), &authv1.PutTeamMemberRequest{
		TeamId: team.GetId(), Username: "max", Role: authv1.TeamRole_TEAM_ROLE_LEAD,
	})
	require.NoError(t, err)
	require.Empty(t, rename(maxi))
	_, err = b.RemoveTeamMember(b.as(maxi, authn.NeedManage), &authv1.RemoveTeamMemberRequest{TeamId: team.GetId(), Username: "lea"})
	require.NoError(t, err)
	require.Equal(t, fault.Absent, rename(lea), "a removed lead no longer sees the team")
	require.Len(t, b.audits("team.update"), 1, "a change to the same name is not audited")
	require.Contains(t, string(b.audits("team.update")[0].Before), "Team speech")
}

func TestServer_putAndRemoveMember_audited(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	team := b.make("speech")
	b.do(`INSERT INTO team_member (team_id, account_id, role, source) VALUES ($1, $2, 'member', 'oidc')`, team.GetId(), eve)
	b.put(team, "eve", authv1.TeamRole_TEAM_ROLE_MEMBER)
	var source string
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT source FROM team_member WHERE account_id = $1`, eve).Scan(&source))
	require.Equal(t, "hand", source, "putting a member changes the source to hand")

	manage := b.as(lea, authn.NeedManage)
	_, err := b.RemoveTeamMember(manage, &authv1.RemoveTeamMemberRequest{TeamId: team.GetId(), Username: "max"})
	require.NoError(t, err)
	removed := b.audits("team.member.remove")
	require.Len(t, removed, 1)
	require.Equal(t, []string{lea, team.GetId()}, []string{removed[0].Actor.ID, removed[0].TargetID})
	require.JSONEq(t, fmt.Sprintf(`{"user_id": %q, "username": "max", "role": "member"}`, maxi), string(removed[0].Before))
	require.Nil(t, removed[0].After)
	for _, name := range []string{"max", "nobody", "a\x00b"} {
		_, err := b.RemoveTeamMember(manage, &authv1.RemoveTeamMemberRequest{TeamId: team.GetId(), Username: name})
		require.Equal(t, fault.Absent, kindOf(err), name)
	}
	_, err = b.PutTeamMember(manage, &authv1.PutTeamMemberRequest{TeamId: team.GetId(), Username: "nobody", Role: authv1.TeamRole_TEAM_ROLE_LEAD})
	require.Equal(t, fault.Absent, kindOf(err))
	require.Len(t, b.audits("team.member.put"), 3)
}

func TestServer_PutTeamMember_limits(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	team := b.make("speech")
	b.do(`INSERT INTO account (id, username, role, password_hash, created_at) SELECT 'usr_' || n, 'n' || n, 'operator', 'x', now() FROM generate_series(1, 500) n`)
	b.do(`INSERT INTO team_member (team_id, account_id, role) SELECT $1, 'usr_' || n, 'member' FROM generate_series(1, 498) n`, team.GetId())
	in := &authv1.PutTeamMemberRequest{TeamId: team.GetId(), Username: "eve", Role: authv1.TeamRole_TEAM_ROLE_MEMBER}
	_, err := b.PutTeamMember(b.as(lea, authn.NeedManage), in)
	require.Equal(t, "team_full", fault.From(err).Code)
	in.Username, in.Role = "max", authv1.TeamRole_TEAM_ROLE_LEAD
	_, err = b.PutTeamMember(b.as(lea, authn.NeedManage), in)
	require.NoError(t, err, "a member of a full team may get another role")

	other := b.make("other")
	b.do(`INSERT INTO team (id, key, name, created_at) SELECT 'team_' || n, 'k-' || n, 'x', now() FROM generate_series(1, 100) n`)
	b.do(`INSERT INTO team_member (team_id, account_id, role) SELECT 'team_' || n, $1, 'member' FROM generate_series(1, 100) n`, eve)
	_, err = b.PutTeamMember(b.as(lea, authn.NeedManage), &authv1.PutTeamMemberRequest{
		TeamId: other.GetId(), Username: "eve", Role: authv1.TeamRole_TEAM_ROLE_MEMBER,
	})
	require.Equal(t, "teams_limit", fault.From(err).Code)
}

// The largest page, with the longest names and more members per team than a list shows, fits into one message.
func TestServer_ListTeams_largestPageFits(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.do(`INSERT INTO account (id, username, role, password_hash, created_at)
		SELECT 'usr_' || n, rpad('n' || n || '-', 128, 'x'), 'operator', 'x', now() FROM generate_series(1, 100) n`)
	b.do(`INSERT INTO team (id, key, name, created_at) SELECT 'team_' || lpad(n::text, 26, '0'), rpad('k-' || n, 40, '-'), rpad('x', 128, 'x'), now()
		FROM generate_series(1, 500) n`)
	b.do(`INSERT INTO team_member (team_id, account_id, role) SELECT t.id, 'usr_' || n, CASE n WHEN 99 THEN 'lead' ELSE 'member' END
		FROM team t, generate_series(1, 100) n`)
	out, err := b.ListTeams(b.as(root, authn.NeedRead), &authv1.ListTeamsRequest{Limit: new(int32(500))})
	require.NoError(t, err)
	require.Len(t, out.GetTeams(), 500)
	require.Less(t, proto.Size(out), rpc.MaxMessage)
	first := out.GetTeams()[0]
	require.Len(t, first.GetMembers(), 40)
	require.EqualValues(t, 100, first.GetMemberCount())
	require.Equal(t, authv1.TeamRole_TEAM_ROLE_LEAD, first.GetMembers()[0].GetRole())
	one, err := b.GetTeam(b.as(root, authn.NeedRead), &authv1.GetTeamRequest{TeamId: first.GetId()})
	require.NoError(t, err)
	require.Len(t, one.GetMembers(), 100)
	require.EqualValues(t, 100, one.GetMemberCount())
}

func TestPeerServer_lookups(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	team := b.make("speech")
	// Insert a user whose username is the id of another user.
	b.do(`INSERT INTO account (id, username, role, password_hash, created_at, disabled_at) VALUES ('usr_00000000000000000000000009', $1, 'operator', 'x', now(), now())`, eve)
	b.do(`INSERT INTO project (id, key, name, visibility, created_at, team_id) VALUES ('prj_1', 'asr', 'ASR', 'team', now(), $1)`, team.GetId())
	peer := &PeerServer{Pool: b.pool}
	for _, name := range []string{"max", maxi} {
		got, err := peer.GetAccount(t.Context(), &authpeerv1.GetAccountRequest{Account: name})
		require.NoError(t, err)
		require.Equal(t, []string{maxi, "max", team.GetId()}, []string{got.GetId(), got.GetUsername(), got.GetTeamIds()[0]})
		require.False(t, got.GetDisabled())
	}
	got, err := peer.GetAccount(t.Context(), &authpeerv1.GetAccountRequest{Account: eve})
	require.NoError(t, err)
	require.Equal(t, "eve", got.GetUsername(), "a value in the form of an id is looked up as an id")
	for _, name := range []string{"speech", team.GetId()} {
		got, err := peer.GetTeam(t.Context(), &authpeerv1.GetTeamRequest{Team: name})
		require.NoError(t, err)
		require.Equal(t, []string{team.GetId(), "speech"}, []string{got.GetId(), got.GetKey()})
	}
	_, err = peer.GetAccount(t.Context(), &authpeerv1.GetAccountRequest{Account: "nobody"})
	require.Equal(t, fault.Absent, kindOf(err))
	_, err = peer.GetTeam(t.Context(), &authpeerv1.GetTeamRequest{Team: "none"})
	require.Equal(t, fault.Absent, kindOf(err))

	people, err := peer.ListAccounts(t.Context(), &authpeerv1.ListAccountsRequest{Limit: 2, Offset: 2})
	require.NoError(t, err)
	require.Equal(t, "max", people.GetAccounts()[0].GetUsername(), "accounts are ordered by name: eve, lea, max, root")
	require.Len(t, people.GetAccounts(), 2)
	teams, err := peer.ListTeams(t.Context(), &authpeerv1.ListTeamsRequest{Limit: 9})
	require.NoError(t, err)
	require.Equal(t, "speech", teams.GetTeams()[0].GetKey())
	roles, err := peer.ListProjectRoles(t.Context(), &authpeerv1.ListProjectRolesRequest{AccountId: maxi})
	require.NoError(t, err)
	require.Equal(t, []string{"prj_1", "editor"}, []string{roles.GetRoles()[0].GetProjectId(), roles.GetRoles()[0].GetRole()})
}
