package team

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestServer_rightsPerUser_team(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	team := b.make("speech")
	name := "New"
	actions := map[string]struct {
		need authn.Need
		do   func(ctx context.Context) error
	}{
		"get": {authn.NeedRead, func(ctx context.Context) error {
			_, err := b.GetTeam(ctx, &authv1.GetTeamRequest{TeamId: team.GetId()})
			return err
		}},
		"rename": {authn.NeedManage, func(ctx context.Context) error {
			_, err := b.UpdateTeam(ctx, &authv1.UpdateTeamRequest{TeamId: team.GetId(), Name: &name})
			return err
		}},
		"put": {authn.NeedManage, func(ctx context.Context) error {
			_, err := b.PutTeamMember(ctx, &authv1.PutTeamMemberRequest{TeamId: team.GetId(), Username: "root", Role: authv1.TeamRole_TEAM_ROLE_MEMBER})
			return err
		}},
		"remove": {authn.NeedManage, func(ctx context.Context) error {
			_, err := b.RemoveTeamMember(ctx, &authv1.RemoveTeamMemberRequest{TeamId: team.GetId(), Username: "root"})
			return err
		}},
	}
	want := map[string]map[string]fault.Kind{
		"get":    {root: "", lea: "", maxi: "", eve: fault.Absent},
		"rename": {root: "", lea: "", maxi: fault.Forbidden, eve: fault.Absent},
		"put":    {root: "", lea: "", maxi: fault.Forbidden, eve: fault.Absent},
		"remove": {root: "", lea: "", maxi: fault.Forbidden, eve: fault.Absent},
	}
	for action, d := range actions {
		for who, kind := range want[action] {
			if action == "remove" {
				b.put(team, "root", authv1.TeamRole_TEAM_ROLE_MEMBER)
			}
			require.Equal(t, kind, kindOf(d.do(b.as(who, d.need))), "unexpected kind of error: %s by %s", action, who)
		}
	}
}

func TestServer_GetTeam_hiddenLooksUnknown(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	team := b.make("speech")
	none := "team_0000000000000000000000000z"
	_, hidden := b.GetTeam(b.as(eve, authn.NeedRead), &authv1.GetTeamRequest{TeamId: team.GetId()})
	_, absent := b.GetTeam(b.as(eve, authn.NeedRead), &authv1.GetTeamRequest{TeamId: none})
	require.Equal(t, fault.Absentf("team", team.GetId()).Error(), fault.From(hidden).Error())
	require.Equal(t, fault.Absentf("team", none).Error(), fault.From(absent).Error())
	_, err := b.GetTeam(b.as(root, authn.NeedRead), &authv1.GetTeamRequest{TeamId: "speech"})
	require.Equal(t, fault.Invalid, kindOf(err))
}

func TestServer_ListTeams_ownTeamsOnly(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.make("zeta")
	alpha, err := b.CreateTeam(b.as(root, authn.NeedNone), &authv1.CreateTeamRequest{Key: "alpha", Name: "A"})
	require.NoError(t, err)
	b.put(alpha, "max", authv1.TeamRole_TEAM_ROLE_LEAD)
	for who, want := range map[string][]string{root: {"alpha", "zeta"}, lea: {"zeta"}, maxi: {"alpha", "zeta"}, eve: nil} {
		got, err := b.ListTeams(b.as(who, authn.NeedRead), &authv1.ListTeamsRequest{})
		require.NoError(t, err)
		var keys []string
		for _, team := range got.GetTeams() {
			keys = append(keys, team.GetKey())
		}
		require.Equal(t, want, keys, who)
	}
	one := int32(1)
	_, err = b.ListTeams(b.as(eve, authn.NeedRead), &authv1.ListTeamsRequest{Limit: new(int32)})
	require.Equal(t, fault.Invalid, kindOf(err))
	last, err := b.ListTeams(b.as(maxi, authn.NeedRead), &authv1.ListTeamsRequest{Limit: &one, Offset: &one})
	require.NoError(t, err)
	require.Equal(t, "zeta", last.GetTeams()[0].GetKey())
	require.Equal(t, []*authv1.TeamMember{
		{Username: "lea", Role: authv1.TeamRole_TEAM_ROLE_LEAD}, {Username: "max", Role: authv1.TeamRole_TEAM_ROLE_MEMBER},
	}, last.GetTeams()[0].GetMembers(), "leads come first")
}

func TestServer_CreateTeam_idempotentAndUniqueKey(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	ctx := metadata.NewIncomingContext(b.as(root, authn.NeedNone), metadata.Pairs("idempotency-key", "k1"))
	first, err := b.CreateTeam(ctx, &authv1.CreateTeamRequest{Key: "speech", Name: "Speech"})
	require.NoError(t, err)
	again, err := b.CreateTeam(ctx, &authv1.CreateTeamRequest{Key: "speech", Name: "Speech"})
	require.NoError(t, err)
	require.Equal(t, first.GetId(), again.GetId(), "a repeat returns the first result")
	_, err = b.CreateTeam(b.as(root, authn.NeedNone), &authv1.CreateTeamRequest{Key: "speech", Name: "Other"})
	require.Equal(t, fault.Conflict, kindOf(err))
	require.Equal(t, "team_exists", fault.From(err).Code)
	require.Len(t, b.audits("team.create"), 1)
}

// A name with invisible characters, or with characters that reverse text, could look like the name of another team.
func TestServer_CreateTeam_invisibleName(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	team := b.make("speech")
	for _, name := range []string{" ", "a\u202egnp", " a", "a\n", "\u200b"} {
		_, err := b.CreateTeam(b.as(root, authn.NeedNone), &authv1.CreateTeamRequest{Key: "other", Name: name})
		require.Equal(t, fault.Invalid, kindOf(err), "%q", name)
		_, err = b.UpdateTeam(b.as(lea, authn.NeedManage), &authv1.UpdateTeamRequest{TeamId: team.GetId(), Name: &name})
		require.Equal(t, fault.Invalid, kindOf(err), "%q", name)
	}
	require.Len(t, b.audits("team.create"), 1)
}

func TestServer_DeleteTeam_withProjects(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	team := b.make("speech")
	b.do(`INSERT INTO project (id, key, name, visibility, created_at, team_id) VALUES ('prj_1', 'asr', 'ASR', 'team', now(), $1)`, team.GetId())
	in := &authv1.DeleteTeamRequest{TeamId: team.GetId()}
	_, err := b.DeleteTeam(b.as(root, authn.NeedNone), in)
	require.Equal(t, "team_has_projects", fault.From(err).Code)
	require.Equal(t, fault.Conflict, kindOf(err))
	require.Empty(t, b.audits("team.delete"))

	b.do(`DELETE FROM project`)
	_, err = b.DeleteTeam(b.as(root, authn.NeedNone), in)
	require.NoError(t, err)
	require.Empty(t, authn.CallerOf(b.as(maxi, authn.NeedRead)).Teams)
	require.Len(t, b.audits("team.delete"), 1)
	_, err = b.DeleteTeam(b.as(root, authn.NeedNone), in)
	require.Equal(t, fault.Absent, kindOf(err))
	_, err = b.GetTeam(b.as(root, authn.NeedRead), &authv1.GetTeamRequest{TeamId: team.GetId()})
	require.Equal(t, fault.Absent, kindOf(err))
}
