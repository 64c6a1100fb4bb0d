package jobs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

func TestCreateShareRefusals(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	open := w.submit()
	member := user("carol", authn.RoleOperator, authn.ProjectRole{Project: "prj_search", Role: authn.ProjectEditor})
	hidden, err := w.jobs().SubmitJob(w.as(member), w.request(func(r *jobsv1.SubmitJobRequest) { r.Spec.Project = "search" }))
	require.NoError(t, err)
	later := w.submit()
	for name, c := range map[string]struct {
		as     authn.Caller
		change func(*jobsv1.CreateShareRequest)
		kind   fault.Kind
		at     string
	}{
		"hidden job":                     {alice(), func(r *jobsv1.CreateShareRequest) { r.TargetIds = []string{hidden.GetId()} }, fault.Absent, ""},
		"unknown job":                    {alice(), func(r *jobsv1.CreateShareRequest) { r.TargetIds = []string{w.ids.New(id.Job)} }, fault.Absent, ""},
		"visible but not editable":       {user("bob", authn.RoleOperator), func(*jobsv1.CreateShareRequest) {}, fault.Forbidden, ""},
		"one of two hidden":              {alice(), func(r *jobsv1.CreateShareRequest) { r.Kind = 2; r.TargetIds = append(r.TargetIds, hidden.GetId()) }, fault.Absent, ""},
		"no kind":                        {alice(), func(r *jobsv1.CreateShareRequest) { r.Kind = 0 }, fault.Invalid, "kind"},
		"no targets":                     {alice(), func(r *jobsv1.CreateShareRequest) { r.TargetIds = nil }, fault.Invalid, "target_ids"},
		"two targets for kind job":       {alice(), func(r *jobsv1.CreateShareRequest) { r.TargetIds = append(r.TargetIds, later.GetId()) }, fault.Invalid, "target_ids"},
		"one target for kind comparison": {alice(), func(r *jobsv1.CreateShareRequest) { r.Kind = 2 }, fault.Invalid, "target_ids"},
		"duplicate target":               {alice(), func(r *jobsv1.CreateShareRequest) { r.Kind = 2; r.TargetIds = append(r.TargetIds, open.GetId()) }, fault.Invalid, "target_ids[1]"},
		"invalid id":                     {alice(), func(r *jobsv1.CreateShareRequest) { r.TargetIds = []string{"job_x"} }, fault.Invalid, "target_ids[0]"},
		"id of another kind":             {alice(), func(r *jobsv1.CreateShareRequest) { r.TargetIds = []string{w.ids.New(id.Dataset)} }, fault.Invalid, "target_ids[0]"},
		"unknown field":                  {alice(), func(r *jobsv1.CreateShareRequest) { r.Fields = []string{"logs"} }, fault.Invalid, "fields[0]"},
		"duplicate field":                {alice(), func(r *jobsv1.CreateShareRequest) { r.Fields = []string{"metrics", "metrics"} }, fault.Invalid, "fields[1]"},
		"expiry in the past":             {alice(), func(r *jobsv1.CreateShareRequest) { r.ExpiresAt = timestamppb.New(time.Now().Add(-time.Second)) }, fault.Invalid, "expires_at"},
		"protected run":                  {alice(), func(r *jobsv1.CreateShareRequest) { r.TargetIds = []string{w.protected().GetId()} }, fault.Forbidden, ""},
	} {
		_, err := w.share(c.as, []string{open.GetId()}, c.change)
		require.True(t, fault.Is(err, c.kind), "%s: %v", name, err)
		if c.at != "" {
			require.Equal(t, c.at, fault.Path(fault.From(err).Fields[0].Loc), name)
		}
	}
	for _, name := range []string{"job " + hidden.GetId(), "run " + hidden.GetRunId()} {
		thing, target, _ := strings.Cut(name, " ")
		_, err := w.share(alice(), []string{target})
		require.Equal(t, "no such "+thing+": "+target, fault.From(err).Msg)
	}
	require.Zero(t, w.count(`share`))
	for name, as := range map[string]authn.Caller{"editor": member, "admin": admin()} {
		_, err := w.share(as, []string{hidden.GetRunId()})
		require.NoError(t, err, name)
	}
	_, err = w.share(alice(), []string{open.GetId(), later.GetRunId()})
	require.NoError(t, err)
}

func TestListAndRevokeShares(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	j := w.submit()
	mine := w.shareOf([]string{j.GetId()})
	theirs, err := w.share(admin(), []string{j.GetId()})
	require.NoError(t, err)
	for range 3 {
		_, err := w.views(mine.GetToken())[""]()
		require.NoError(t, err)
	}
	_, err = w.views(mine.GetToken())["metrics"]()
	require.NoError(t, err)
	list := func(as authn.Caller) []*jobsv1.Share {
		got, err := w.shares().ListShares(w.as(as), &jobsv1.ListSharesRequest{})
		require.NoError(t, err)
		return got.GetShares()
	}
	own := list(alice())
	require.Len(t, own, 1)
	require.Nil(t, own[0].Token)
	require.Nil(t, own[0].Url)
	require.EqualValues(t, 3, own[0].GetViews())
	require.NotNil(t, own[0].GetLastViewedAt())
	require.Len(t, list(admin()), 2, "an admin must see all links")
	require.Empty(t, list(user("bob", authn.RoleOperator)))

	revoke := func(as authn.Caller, shareID string) error {
		_, err := w.shares().RevokeShare(w.as(as), &jobsv1.RevokeShareRequest{ShareId: shareID})
		return err
	}
	hidden, absent := revoke(alice(), theirs.GetId()), revoke(alice(), w.ids.New(id.Share))
	require.True(t, fault.Is(hidden, fault.Absent) && fault.Is(absent, fault.Absent), "a hidden link and a missing link must both be reported as absent: %v, %v", hidden, absent)
	require.True(t, fault.Is(revoke(alice(), "x"), fault.Invalid))
	// Revoking twice is not an error.
	for range 2 {
		require.NoError(t, revoke(alice(), mine.GetId()))
	}
	w.gone("revoked", mine.GetToken())
	require.NoError(t, revoke(admin(), theirs.GetId()))
	require.Equal(t, 2, w.count(`audit WHERE action = 'share.revoke'`))
	require.NotNil(t, list(alice())[0].GetRevokedAt(), "a revoked link must still be listed")
}

func TestCreateShareRepeat(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	j := w.submit()
	ctx := keyed(w.as(alice()), "share")
	req := &jobsv1.CreateShareRequest{Kind: jobsv1.ShareKind_SHARE_KIND_JOB, TargetIds: []string{j.GetId()}, Pinned: true}
	first, err := w.shares().CreateShare(ctx, req)
	require.NoError(t, err)
	again, err := w.shares().CreateShare(ctx, req)
	require.NoError(t, err)
	require.Equal(t, first.GetId(), again.GetId())
	require.Nil(t, again.Token)
	require.Nil(t, again.Url)
	require.Equal(t, 1, w.count(`share`))
	_, err = w.pool.Exec(t.Context(), `INSERT INTO share (id, kind, owner_id, owner_name, hash, prefix, targets, runs, fields, pinned, created_at)
		SELECT 'shr_' || n, 'job', 'usr_alice', 'alice', sha256(n::text::bytea), 'p', '{a}', '{a}', '{}', false, now() FROM generate_series(1, 999) n`)
	require.NoError(t, err)
	_, err = w.share(alice(), []string{j.GetId()})
	require.True(t, fault.HasCode(err, "share_limit"), "%v", err)
}
