package project

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	viewer = authv1.ProjectRole_PROJECT_ROLE_VIEWER
	editor = authv1.ProjectRole_PROJECT_ROLE_EDITOR
	owner  = authv1.ProjectRole_PROJECT_ROLE_OWNER
)

func TestMemberRole_effectiveAtNextCall(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	p := b.make(ann, "asr", func(*authv1.CreateProjectRequest) {})
	role := func(who string) string { return authn.CallerOf(b.as(who, authn.NeedRead)).ProjectRole(p.GetId()) }
	require.Empty(t, role(bob))
	for want, number := range map[string]authv1.ProjectRole{"viewer": viewer, "editor": editor, "owner": owner} {
		require.NoError(t, b.put(ann, p, "bob", number))
		require.Equal(t, want, role(bob))
	}
	require.NoError(t, b.put(ann, p, "bob", viewer))
	b.do(`UPDATE project SET team_id = $1 WHERE id = $2`, crew, p.GetId())
	b.do(`INSERT INTO team_member (team_id, account_id, role) VALUES ($1, $2, 'member')`, crew, bob)
	require.Equal(t, "editor", role(bob), "the role of the team is higher")
	require.NoError(t, b.remove(ann, p, "bob"))
	require.Equal(t, "editor", role(bob))
	b.do(`DELETE FROM team_member WHERE account_id = $1`, bob)
	require.Empty(t, role(bob))
	require.Equal(t, fault.Absent, kindOf(b.remove(ann, p, "bob")), "only members can be removed")
	require.Equal(t, fault.Absent, kindOf(b.put(ann, p, "nobody", viewer)))
	require.Equal(t, fault.Absent, kindOf(b.remove(ann, p, "nobody")))
	require.Len(t, b.audits("project.member.put"), 4)
	removed := b.audits("project.member.remove")
	require.Len(t, removed, 1)
	require.JSONEq(t, `{"user_id": "`+bob+`", "username": "bob", "role": "viewer"}`, string(removed[0].Before))
}

func TestServer_ListProjectMembers_byName(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	p := b.make(tom, "asr", ofCrew)
	require.NoError(t, b.put(tom, p, "eve", viewer))
	require.NoError(t, b.put(tom, p, "ann", editor))
	got, err := b.ListProjectMembers(b.as(eve, authn.NeedRead), &authv1.ListProjectMembersRequest{ProjectId: p.GetId()})
	require.NoError(t, err)
	require.Len(t, got.GetMembers(), 3)
	for i, want := range []*authv1.ProjectMember{{Username: "ann", Role: editor}, {Username: "eve", Role: viewer}, {Username: "tom", Role: owner}} {
		require.Equal(t, want.String(), got.GetMembers()[i].String())
	}
	one, two := int32(1), int32(2)
	got, err = b.ListProjectMembers(b.as(eve, authn.NeedRead), &authv1.ListProjectMembersRequest{ProjectId: p.GetId(), Limit: &one, Offset: &two})
	require.NoError(t, err)
	require.Equal(t, "tom", got.GetMembers()[0].GetUsername())
	found, err := (&PeerServer{Pool: b.pool}).GetProject(t.Context(), &authpeerv1.GetProjectRequest{Project: p.GetId()})
	require.NoError(t, err)
	require.Equal(t, crew, found.GetTeamId())
}

func TestServer_keepsLastOwner(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	p := b.make(ann, "asr")
	for _, err := range []error{b.put(ann, p, "ann", editor), b.remove(ann, p, "ann"), b.remove(root, p, "ann")} {
		require.Equal(t, fault.Conflict, kindOf(err))
		require.Equal(t, "last_owner", fault.From(err).Code)
	}
	require.NoError(t, b.put(ann, p, "ann", owner))
	require.Len(t, b.audits("project.member.put"), 1, "rejected changes are not audited")

	b.do(`DELETE FROM membership WHERE project_id = $1`, p.GetId())
	require.NoError(t, b.put(root, p, "bob", viewer), "an admin can repair a project without an owner")
	require.NoError(t, b.remove(root, p, "bob"))
}

// If all owners are removed and demoted concurrently, one owner remains.
func TestServer_keepsLastOwner_concurrent(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	p := b.make(ann, "asr")
	names := []string{"ann", "bob", "tom", "eve"}
	for _, name := range names {
		require.NoError(t, b.put(root, p, name, owner))
	}
	manage := b.as(root, authn.NeedManage)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			var err error
			if name := names[i%4]; i < 4 {
				_, err = b.RemoveProjectMember(manage, &authv1.RemoveProjectMemberRequest{ProjectId: p.GetId(), Username: name})
			} else {
				_, err = b.PutProjectMember(manage, &authv1.PutProjectMemberRequest{ProjectId: p.GetId(), Username: name, Role: editor})
			}
			if kind := kindOf(err); kind != "" && kind != fault.Conflict && kind != fault.Absent {
				t.Errorf("the change failed with an unexpected error: %v", err)
			}
		})
	}
	wg.Wait()
	var owners int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM membership WHERE project_id = $1 AND role = 'owner'`, p.GetId()).Scan(&owners))
	require.Equal(t, 1, owners)
}

func TestServer_PutProjectMember_limit(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	p := b.make(ann, "asr")
	b.do(`INSERT INTO account (id, username, role, password_hash, created_at) SELECT 'usr_' || n, 'n' || n, 'operator', 'x', now() FROM generate_series(1, $1) n`, maxMembers)
	b.do(`INSERT INTO membership (project_id, account_id, role) SELECT $1, 'usr_' || n, 'viewer' FROM generate_series(1, $2) n`, p.GetId(), maxMembers-1)
	require.Equal(t, "project_full", fault.From(b.put(ann, p, "bob", viewer)).Code)
	require.NoError(t, b.put(ann, p, "n1", owner))
}
