package auth_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/auth"
)

const olga = "usr_0000000000000000000000olga"

// teamClients holds clients of the team and project services, with tokens of the admin and of olga, an operator.
type teamClients struct {
	*harness

	teams      authv1.TeamServiceClient
	projects   authv1.ProjectServiceClient
	root, olga string // access tokens
}

func newTeamClients(t *testing.T) *teamClients {
	t.Helper()
	h := open(t)
	_, err := h.db.Pool(auth.Name).Exec(t.Context(), `INSERT INTO account (id, username, role, password_hash, created_at)
		SELECT $1, 'olga', 'operator', password_hash, now() FROM account WHERE username = 'admin'`, olga)
	require.NoError(t, err)
	conn, err := h.bus.As("gateway").Dial(auth.Name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	c := &teamClients{harness: h, teams: authv1.NewTeamServiceClient(conn), projects: authv1.NewProjectServiceClient(conn)}
	for name, token := range map[string]*string{"admin": &c.root, "olga": &c.olga} {
		out, err := h.public.Login(mustAs(h, ""), &authv1.LoginRequest{Username: name, Password: password})
		require.NoError(t, err)
		*token = out.GetToken()
	}
	return c
}

// kind returns the kind of the error; it is empty for nil.
func kind[A any](_ A, err error) fault.Kind {
	if err == nil {
		return ""
	}
	return fault.From(err).Kind
}

func TestTeamRole_effectiveAtNextCall(t *testing.T) {
	t.Parallel()
	c := newTeamClients(t)
	ctx := mustAs(c.harness, c.root)
	team, err := c.teams.CreateTeam(ctx, &authv1.CreateTeamRequest{Key: "speech", Name: "Speech"})
	require.NoError(t, err)
	teamID := team.GetId()
	project, err := c.projects.CreateProject(ctx, &authv1.CreateProjectRequest{Key: "asr", Name: "ASR", TeamId: &teamID})
	require.NoError(t, err)
	name := "New"
	tries := func() []fault.Kind {
		as := func() context.Context { return mustAs(c.harness, c.olga) }
		return []fault.Kind{
			kind(c.projects.GetProject(as(), &authv1.GetProjectRequest{ProjectId: project.GetId()})),
			kind(c.projects.UpdateProject(as(), &authv1.UpdateProjectRequest{ProjectId: project.GetId(), Name: &name})),
			kind(c.projects.CreateProject(as(), &authv1.CreateProjectRequest{Key: "asr", Name: "Taken", TeamId: &teamID})),
			kind(c.teams.UpdateTeam(as(), &authv1.UpdateTeamRequest{TeamId: teamID, Name: &name})),
		}
	}
	expect := func(step string, want ...fault.Kind) {
		t.Helper()
		require.Equal(t, want, tries(), step)
	}
	const none = fault.Kind("")
	expect("not a member", fault.Absent, fault.Absent, fault.Refused, fault.Absent)
	put := func(role authv1.TeamRole) {
		_, err := c.teams.PutTeamMember(mustAs(c.harness, c.root), &authv1.PutTeamMemberRequest{TeamId: teamID, Username: "olga", Role: role})
		require.NoError(t, err)
	}
	put(authv1.TeamRole_TEAM_ROLE_MEMBER)
	expect("member of the team", none, fault.Forbidden, fault.Conflict, fault.Forbidden)
	me, err := c.public.GetMe(mustAs(c.harness, c.olga), &authv1.GetMeRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"speech"}, me.GetTeams(), "teams are listed by key")
	put(authv1.TeamRole_TEAM_ROLE_LEAD)
	expect("lead of the team", none, fault.Forbidden, fault.Conflict, none)
	_, err = c.projects.PutProjectMember(mustAs(c.harness, c.root), &authv1.PutProjectMemberRequest{
		ProjectId: project.GetId(), Username: "olga", Role: authv1.ProjectRole_PROJECT_ROLE_OWNER,
	})
	require.NoError(t, err)
	expect("owner of the project", none, none, fault.Conflict, none)
	_, err = c.teams.RemoveTeamMember(mustAs(c.harness, c.root), &authv1.RemoveTeamMemberRequest{TeamId: teamID, Username: "olga"})
	require.NoError(t, err)
	expect("removed from the team", none, none, fault.Refused, fault.Absent)
	_, err = c.projects.RemoveProjectMember(mustAs(c.harness, c.olga), &authv1.RemoveProjectMemberRequest{ProjectId: project.GetId(), Username: "olga"})
	require.NoError(t, err)
	expect("removed from the project", fault.Absent, fault.Absent, fault.Refused, fault.Absent)
}

func TestTeamService_createAndDeleteByAdminsOnly(t *testing.T) {
	t.Parallel()
	c := newTeamClients(t)
	_, err := c.teams.CreateTeam(mustAs(c.harness, c.olga), &authv1.CreateTeamRequest{Key: "speech", Name: "Speech"})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = c.teams.CreateTeam(mustAs(c.harness, c.root), &authv1.CreateTeamRequest{Key: "Speech!", Name: "Speech"})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	team, err := c.teams.CreateTeam(mustAs(c.harness, c.root), &authv1.CreateTeamRequest{Key: "speech", Name: "Speech"})
	require.NoError(t, err)
	in := &authv1.PutTeamMemberRequest{TeamId: team.GetId(), Username: "olga", Role: authv1.TeamRole_TEAM_ROLE_LEAD}
	_, err = c.teams.PutTeamMember(mustAs(c.harness, c.root), in)
	require.NoError(t, err)
	in.Role = authv1.TeamRole_TEAM_ROLE_UNSPECIFIED
	_, err = c.teams.PutTeamMember(mustAs(c.harness, c.root), in)
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = c.teams.DeleteTeam(mustAs(c.harness, c.olga), &authv1.DeleteTeamRequest{TeamId: team.GetId()})
	require.True(t, fault.Is(err, fault.Forbidden), "the lead must not delete the team: %v", err)
	_, err = c.teams.DeleteTeam(mustAs(c.harness, c.root), &authv1.DeleteTeamRequest{TeamId: team.GetId()})
	require.NoError(t, err)
}

func TestGetAccount_allowedPeers(t *testing.T) {
	t.Parallel()
	c := newTeamClients(t)
	for name, want := range map[string]fault.Kind{"jobs": "", "registry": "", "ingest": fault.Forbidden, "gateway": fault.Forbidden} {
		conn, err := c.bus.As(name).Dial(auth.Name)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		got, err := authpeerv1.NewAccountPeerServiceClient(conn).GetAccount(t.Context(), &authpeerv1.GetAccountRequest{Account: "olga"})
		if want != "" {
			require.True(t, fault.Is(err, want), "%s: %v", name, err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, olga, got.GetId())
	}
}

func TestProjectRoles_complete(t *testing.T) {
	t.Parallel()
	c := newTeamClients(t)
	_, err := c.db.Pool(auth.Name).Exec(t.Context(), `WITH made AS (INSERT INTO project (id, key, name, visibility, created_at)
			SELECT 'prj_' || lpad(n::text, 26, '0'), 'key-' || n, 'x', 'team', now() FROM generate_series(1, 700) n RETURNING id)
		INSERT INTO membership (project_id, account_id, role) SELECT id, $1, 'editor' FROM made`, olga)
	require.NoError(t, err)
	roles, err := service(t, c.db, c.clock).ProjectRoles(t.Context(), olga)
	require.NoError(t, err)
	require.Len(t, roles, 700)
	require.Equal(t, authn.ProjectEditor, roles[699].Role)
}
