package project

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestServer_rightsPerUser(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	hidden, shown := b.make(ann, "hidden"), b.make(ann, "shown", forAll)
	b.do(`UPDATE project SET team_id = $1 WHERE id = ANY($2)`, crew, []string{hidden.GetId(), shown.GetId()})
	require.NoError(t, b.put(ann, hidden, "bob", authv1.ProjectRole_PROJECT_ROLE_VIEWER))
	name := "New"
	for who, want := range map[string]struct{ read, change, changeShown fault.Kind }{
		root: {}, ann: {},
		bob: {change: fault.Forbidden, changeShown: fault.Forbidden},
		tom: {change: fault.Forbidden, changeShown: fault.Forbidden}, // an editor, as a member of the team
		eve: {read: fault.Absent, change: fault.Absent, changeShown: fault.Forbidden},
	} {
		read := b.as(who, authn.NeedRead)
		_, err := b.GetProject(read, &authv1.GetProjectRequest{ProjectId: hidden.GetId()})
		require.Equal(t, want.read, kindOf(err), who)
		_, err = b.ListProjectMembers(read, &authv1.ListProjectMembersRequest{ProjectId: hidden.GetId()})
		require.Equal(t, want.read, kindOf(err), who)
		_, err = b.GetProject(read, &authv1.GetProjectRequest{ProjectId: shown.GetId()})
		require.NoError(t, err, who)
		manage := b.as(who, authn.NeedManage)
		_, err = b.UpdateProject(manage, &authv1.UpdateProjectRequest{ProjectId: hidden.GetId(), Name: &name})
		require.Equal(t, want.change, kindOf(err), who)
		_, err = b.UpdateProject(manage, &authv1.UpdateProjectRequest{ProjectId: shown.GetId(), Name: &name})
		require.Equal(t, want.changeShown, kindOf(err), who)
		require.Equal(t, want.change, kindOf(b.put(who, hidden, "root", authv1.ProjectRole_PROJECT_ROLE_VIEWER)), who)
		if want.change != "" {
			require.Equal(t, want.change, kindOf(b.remove(who, hidden, "root")), who)
		}
	}
}

func TestServer_ListProjects_readableOnly(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.make(ann, "zeta")
	b.make(tom, "crewed", ofCrew)
	b.make(bob, "open", forAll)
	for who, want := range map[string][]string{
		root: {"crewed", "open", "speech", "zeta"}, ann: {"open", "zeta"}, tom: {"crewed", "open"}, eve: {"open"},
	} {
		got, err := b.ListProjects(b.as(who, authn.NeedRead), &authv1.ListProjectsRequest{})
		require.NoError(t, err)
		var keys []string
		for _, p := range got.GetProjects() {
			keys = append(keys, p.GetKey())
		}
		require.Equal(t, want, keys, who)
	}
	_, err := b.ListProjects(b.as(eve, authn.NeedRead), &authv1.ListProjectsRequest{Limit: new(int32)})
	require.Equal(t, fault.Invalid, kindOf(err))
	_, err = b.GetProject(b.as(root, authn.NeedRead), &authv1.GetProjectRequest{ProjectId: "zeta"})
	require.Equal(t, fault.Invalid, kindOf(err))
	service := authn.WithNeed(authn.NewContext(t.Context(), &authn.Caller{Kind: authn.KindNone}), authn.NeedRead)
	none, err := b.ListProjects(service, &authv1.ListProjectsRequest{})
	require.NoError(t, err)
	require.Empty(t, none.GetProjects(), "projects that are visible to all users are hidden from other callers")
}

func TestServer_CreateProject_teamMustBeVisible(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	none := "team_0000000000000000000000000z"
	for team, who := range map[string]string{crew: ann, none: ann} {
		_, err := b.CreateProject(b.as(who, authn.NeedRead), &authv1.CreateProjectRequest{Key: "asr", Name: "ASR", TeamId: &team})
		require.Equal(t, fault.Refused, kindOf(err), team)
		require.Equal(t, noTeam(team).Error(), fault.From(err).Error(), "a hidden team looks like an unknown one")
	}
	_, err := b.CreateProject(b.as(root, authn.NeedRead), &authv1.CreateProjectRequest{Key: "asr", Name: "ASR", TeamId: &none})
	require.Equal(t, noTeam(none).Error(), fault.From(err).Error())
	made := b.make(tom, "asr", ofCrew)
	require.Equal(t, crew, made.GetTeamId())
	require.Equal(t, authv1.ProjectVisibility_PROJECT_VISIBILITY_TEAM, made.GetVisibility(), "team is the default visibility")
	require.Equal(t, "owner", authn.CallerOf(b.as(tom, authn.NeedRead)).ProjectRole(made.GetId()))
	b.make(root, "admins", ofCrew)

	_, err = b.CreateProject(b.as(bob, authn.NeedRead), &authv1.CreateProjectRequest{Key: "asr", Name: "Other"})
	require.Equal(t, "project_exists", fault.From(err).Code)
	require.Len(t, b.audits("project.create"), 2)
}

func TestServer_CreateProject_idempotent(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	ctx := metadata.NewIncomingContext(b.as(ann, authn.NeedRead), metadata.Pairs("idempotency-key", "k1"))
	in := &authv1.CreateProjectRequest{Key: "asr", Name: "ASR"}
	first, err := b.CreateProject(ctx, in)
	require.NoError(t, err)
	again, err := b.CreateProject(ctx, in)
	require.NoError(t, err)
	require.Equal(t, first.GetId(), again.GetId())
	in.Name = "Other"
	_, err = b.CreateProject(ctx, in)
	require.Equal(t, fault.Conflict, kindOf(err))
}

func TestServer_UpdateProject(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	p := b.make(ann, "asr", func(in *authv1.CreateProjectRequest) { words := "Speech"; in.Description = &words })
	yes, no, none := true, false, ""
	change := func(in *authv1.UpdateProjectRequest) *authv1.Project {
		in.ProjectId = p.GetId()
		got, err := b.UpdateProject(b.as(ann, authn.NeedManage), in)
		require.NoError(t, err)
		read, err := b.GetProject(b.as(ann, authn.NeedRead), &authv1.GetProjectRequest{ProjectId: p.GetId()})
		require.NoError(t, err)
		require.Equal(t, read.String(), got.String())
		return got
	}
	got := change(&authv1.UpdateProjectRequest{Visibility: authv1.ProjectVisibility_PROJECT_VISIBILITY_ALL, Archived: &yes})
	require.Equal(t, "Speech", got.GetDescription(), "fields that the request omits stay unchanged")
	require.Equal(t, b.clock.Now(), got.GetArchivedAt().AsTime())
	require.Equal(t, authv1.ProjectVisibility_PROJECT_VISIBILITY_ALL, got.GetVisibility())
	peer := &PeerServer{Pool: b.pool}
	seen, err := peer.GetProject(t.Context(), &authpeerv1.GetProjectRequest{Project: "asr"})
	require.NoError(t, err)
	require.True(t, seen.GetArchived(), "other services see the archive flag")
	require.Empty(t, seen.GetTeamId())
	for _, in := range []*authv1.UpdateProjectRequest{{Description: &none}, {Archived: &yes}} {
		in.ProjectId = p.GetId()
		_, err = b.UpdateProject(b.as(ann, authn.NeedManage), in)
		require.True(t, fault.HasCode(err, authn.CodeProjectArchived) && fault.Is(err, fault.Conflict), "%v", err)
	}
	require.True(t, fault.HasCode(b.put(ann, p, "bob", viewer), authn.CodeProjectArchived), "members of an archived project cannot be changed")
	got = change(&authv1.UpdateProjectRequest{Description: &none, Archived: &no})
	require.Nil(t, got.Description)
	require.Nil(t, got.GetArchivedAt())
	require.Equal(t, authv1.ProjectVisibility_PROJECT_VISIBILITY_ALL, got.GetVisibility())
	rows := b.audits("project.update")
	require.Len(t, rows, 2)
	require.Contains(t, string(rows[1].Before), `"visibility":"team"`)
	require.Contains(t, string(rows[1].After), `"visibility":"all"`)
}

func TestServer_UpdateProject_defaultProjectNotArchived(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.do(`UPDATE project SET key = 'default' WHERE id = $1`, prj)
	yes := true
	_, err := b.UpdateProject(b.as(root, authn.NeedManage), &authv1.UpdateProjectRequest{ProjectId: prj, Archived: &yes})
	require.Equal(t, "default_project", fault.From(err).Code)
	require.Empty(t, b.audits("project.update"))
}
