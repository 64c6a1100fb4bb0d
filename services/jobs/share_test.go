package jobs_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

func (w *world) shares() jobsv1.ShareServiceClient {
	return jobsv1.NewShareServiceClient(w.dial("gateway"))
}

func (w *world) shared() jobsv1.SharedServiceClient {
	return jobsv1.NewSharedServiceClient(w.dial("gateway"))
}

// all requests every field of a link.
func all(r *jobsv1.CreateShareRequest) { r.Fields = []string{"metrics", "config", "samples"} }

func (w *world) share(as authn.Caller, targets []string, change ...func(*jobsv1.CreateShareRequest)) (*jobsv1.Share, error) {
	w.t.Helper()
	req := &jobsv1.CreateShareRequest{Kind: jobsv1.ShareKind_SHARE_KIND_JOB, TargetIds: targets}
	if len(targets) > 1 {
		req.Kind = jobsv1.ShareKind_SHARE_KIND_COMPARISON
	}
	for _, c := range change {
		c(req)
	}
	return w.shares().CreateShare(w.as(as), req)
}

func (w *world) shareOf(targets []string, change ...func(*jobsv1.CreateShareRequest)) *jobsv1.Share {
	w.t.Helper()
	s, err := w.share(alice(), targets, change...)
	require.NoError(w.t, err)
	return s
}

// views returns the public calls for every field of a link, "" being the link itself.
func (w *world) views(token string) map[string]func() (proto.Message, error) {
	ctx, c := w.as(nobody()), w.shared()
	return map[string]func() (proto.Message, error){
		"": func() (proto.Message, error) { return c.GetShared(ctx, &jobsv1.GetSharedRequest{Token: token}) },
		"metrics": func() (proto.Message, error) {
			return c.ListSharedMetrics(ctx, &jobsv1.ListSharedMetricsRequest{Token: token})
		},
		"config": func() (proto.Message, error) {
			return c.GetSharedConfig(ctx, &jobsv1.GetSharedConfigRequest{Token: token})
		},
		"samples": func() (proto.Message, error) {
			return c.ListSharedSamples(ctx, &jobsv1.ListSharedSamplesRequest{Token: token})
		},
	}
}

// gone requires that every call with a token gives the same 404.
func (w *world) gone(why, token string) {
	w.t.Helper()
	for name, view := range w.views(token) {
		_, err := view()
		f := fault.From(err)
		require.Equal(w.t, fault.Absent, f.Kind, "%s %s: %v", why, name, err)
		require.Equal(w.t, []string{"Not Found", ""}, []string{f.Text(), f.Code}, "%s %s", why, name)
	}
}

func TestSharedLinkShowsOnlyItsFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fleet("cpu")
	j := w.submit(func(r *jobsv1.SubmitJobRequest) {
		r.Spec.Name, r.Spec.Env, r.Spec.Notes = "the shown name", map[string]string{"HIDDEN_ENV": "hidden-value"}, "hidden notes"
		r.Spec.Labels = map[string]string{"hidden-label": "x"}
	})
	s := w.shareOf([]string{j.GetId()}, all, func(r *jobsv1.CreateShareRequest) { r.Title = new("Look at this") })
	require.Equal(t, secret.KindShare, secret.Kind(s.GetToken()))
	require.Equal(t, "http://signalbox.example/api/share/"+s.GetToken(), s.GetUrl())
	require.Equal(t, s.GetToken()[:8], s.GetPrefix())
	require.Equal(t, "alice", s.GetOwner())
	require.NoError(t, id.Check(id.Share, s.GetId()))

	var seen strings.Builder
	for name, view := range w.views(s.GetToken()) {
		m, err := view()
		require.NoError(t, err, name)
		raw, err := protojson.Marshal(m)
		require.NoError(t, err)
		seen.Write(raw)
		switch m := m.(type) {
		case *jobsv1.Shared:
			require.Equal(t, "Look at this", m.GetTitle())
			require.Len(t, m.GetRuns(), 1)
			require.Equal(t, "the shown name", m.GetRuns()[0].GetName())
			require.Equal(t, jobsv1.JobState_JOB_STATE_QUEUED, m.GetRuns()[0].GetState())
			require.Equal(t, []string{"demo/chat-tiny", "1.0.0"}, []string{m.GetRuns()[0].GetRecipe(), m.GetRuns()[0].GetRecipeVersion()})
		case *jobsv1.ListSharedMetricsResponse:
			require.Equal(t, "loss", m.GetSeries()[0].GetKey())
			require.InDelta(t, 0.5, m.GetSeries()[0].GetPoints()[0].GetValue(), 0)
		case *jobsv1.SharedConfig:
			require.JSONEq(t, `{"optim.lr":0.1}`, string(m.GetHparams()))
		case *jobsv1.ListSharedSamplesResponse:
			require.Equal(t, `"shown question"`, string(m.GetSamples()[0].GetUser()))
		}
	}
	for _, hidden := range []string{
		j.GetId(), j.GetRunId(), s.GetId(), "usr_", "alice", "prj_", "HIDDEN", "hidden", "ds/default", "job_", "run_", s.GetToken(), "digest",
	} {
		require.NotContains(t, seen.String(), hidden)
	}
	require.Zero(t, w.count(`audit WHERE after::text LIKE '%`+s.GetToken()+`%'`))
	require.Zero(t, w.count(`share WHERE share::text LIKE '%`+s.GetToken()+`%'`), "only its hash is stored")
}

func TestSharedLinkFieldAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fleet("cpu")
	j := w.submit()
	for _, c := range []struct{ requested, opens []string }{
		{nil, []string{"metrics", "config"}}, {[]string{"metrics"}, []string{"metrics"}}, {[]string{"samples"}, []string{"samples"}},
	} {
		for _, pinned := range []bool{false, true} {
			s := w.shareOf([]string{j.GetId()}, func(r *jobsv1.CreateShareRequest) { r.Fields, r.Pinned = c.requested, pinned })
			require.Equal(t, c.opens, s.GetFields())
			for name, view := range w.views(s.GetToken()) {
				_, err := view()
				if name == "" || strings.Contains(strings.Join(c.opens, " "), name) {
					require.NoError(t, err, name)
					continue
				}
				require.Equal(t, "Not Found", fault.From(err).Text(), "%v opens %s: %v", c.opens, name, err)
			}
		}
	}
}

func TestInvalidSharedLinksIndistinguishable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fleet("cpu")
	j := w.submit()
	s := w.shareOf([]string{j.GetId()}, all)
	for why, token := range map[string]string{
		"unknown":               mint(t, secret.KindShare),
		"another kind of token": mint(t, secret.KindDeployment),
		"wrong checksum":        s.GetToken()[:len(s.GetToken())-1] + "~",
		"empty":                 "",
		"long":                  strings.Repeat("shr_", 5000),
		"the link's id":         s.GetId(),
		"a job's id":            j.GetId(),
		"upper case":            strings.ToUpper(s.GetToken()),
		"trailing space":        s.GetToken() + " ",
		"hostile":               "'; DROP TABLE share; --\x00",
	} {
		w.gone(why, token)
	}
	for why, sql := range map[string]string{
		"expired":     `UPDATE share SET expires_at = now() WHERE id = $1`,
		"revoked":     `UPDATE share SET revoked_at = now() WHERE id = $1`,
		"target gone": `UPDATE share SET runs = '{run_00000000000000000000000000}' WHERE id = $1`,
	} {
		s := w.shareOf([]string{j.GetId()}, all)
		_, err := w.shared().GetShared(w.as(nobody()), &jobsv1.GetSharedRequest{Token: s.GetToken()})
		require.NoError(t, err)
		_, err = w.pool.Exec(t.Context(), sql, s.GetId())
		require.NoError(t, err)
		w.gone(why, s.GetToken())
	}
	w.gone("not a token", "x")
	_, err := w.shared().ListSharedMetrics(w.as(nobody()), &jobsv1.ListSharedMetricsRequest{Token: s.GetToken(), Run: new(int32(1))})
	require.Equal(t, "Not Found", fault.From(err).Text())
	_, err = w.shared().ListSharedMetrics(w.as(nobody()), &jobsv1.ListSharedMetricsRequest{Token: "x", Limit: new(int32(0))})
	require.True(t, fault.Is(err, fault.Invalid), "an invalid query is reported whatever the token: %v", err)
}

func TestSharedLinkEndsWithOwnerAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fleet("cpu")
	member := user("carol", authn.RoleOperator, authn.ProjectRole{Project: "prj_search", Role: authn.ProjectEditor})
	j, err := w.jobs().SubmitJob(w.as(member), w.request(func(r *jobsv1.SubmitJobRequest) { r.Spec.Project = "search" }))
	require.NoError(t, err)
	editor := user("dave", authn.RoleOperator, authn.ProjectRole{Project: "prj_search", Role: authn.ProjectEditor})
	w.people.grant("usr_dave", "prj_search", authn.ProjectEditor)
	own, err := w.share(member, []string{j.GetId()}, all)
	require.NoError(t, err)
	others, err := w.share(editor, []string{j.GetId()}, all)
	require.NoError(t, err)
	shows := func(token string) {
		t.Helper()
		_, err := w.shared().GetShared(w.as(nobody()), &jobsv1.GetSharedRequest{Token: token})
		require.NoError(t, err)
	}
	shows(own.GetToken())
	shows(others.GetToken())
	w.people.grant("usr_dave", "prj_search", authn.ProjectViewer)
	w.gone("the owner is only a viewer now", others.GetToken())
	w.people.grant("usr_dave", "prj_search", "")
	w.gone("the owner is not a member any more", others.GetToken())
	shows(own.GetToken())
	w.people.promote("usr_dave")
	shows(others.GetToken())
	w.people.disable("usr_carol")
	w.gone("the owner is disabled", own.GetToken())
	w.people.remove("usr_dave")
	w.gone("the owner is gone", others.GetToken())
}

func TestCreateShareRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
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
		"protected samples":              {alice(), func(r *jobsv1.CreateShareRequest) { r.TargetIds = []string{w.protected().GetId()}; all(r) }, fault.Forbidden, ""},
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

// protected submits a job that is bound to a protected dataset.
func (w *world) protected() *jobsv1.Job {
	return w.submit(func(r *jobsv1.SubmitJobRequest) { r.Spec.Bindings.Datasets["train"] = "ds/default/protected@1" })
}

func TestProtectedSamplesNotShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fleet("cpu")
	j := w.submit()
	live := w.shareOf([]string{j.GetId()}, all)
	pinned := w.shareOf([]string{j.GetId()}, all, func(r *jobsv1.CreateShareRequest) { r.Pinned = true })
	samples := func(s *jobsv1.Share) error { _, err := w.views(s.GetToken())["samples"](); return err }
	require.NoError(t, samples(live))
	require.NoError(t, samples(pinned))
	w.catalog.protect("ds/default/pairs@1")
	for _, s := range []*jobsv1.Share{live, pinned} {
		require.Equal(t, "Not Found", fault.From(samples(s)).Text(), "the dataset is protected now")
		_, err := w.views(s.GetToken())["metrics"]()
		require.NoError(t, err, "the other fields are still shown")
	}
	s := w.shareOf([]string{w.protected().GetId()})
	_, err := w.views(s.GetToken())["config"]()
	require.NoError(t, err)
	require.Equal(t, "Not Found", fault.From(samples(s)).Text())
}

func TestPinnedAndLiveLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fleet("cpu")
	j, other := w.submit(), w.submit()
	live := w.shareOf([]string{j.GetId(), other.GetId()}, all)
	pinned := w.shareOf([]string{j.GetId(), other.GetId()}, all, func(r *jobsv1.CreateShareRequest) { r.Pinned = true })
	look := func(token string) map[string]string {
		out := map[string]string{}
		for name, view := range w.views(token) {
			m, err := view()
			require.NoError(t, err, name)
			raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			require.NoError(t, err)
			out[name] = string(raw)
		}
		return out
	}
	frozen := look(pinned.GetToken())
	before := look(live.GetToken())
	w.ingest.report("loss", 0.25)
	_, err := w.jobs().StopJob(w.as(alice()), &jobsv1.StopJobRequest{JobId: j.GetId()})
	require.NoError(t, err)
	require.Equal(t, frozen, look(pinned.GetToken()))
	after := look(live.GetToken())
	for _, name := range []string{"", "metrics"} {
		require.NotEqual(t, before[name], after[name], "%s shows the change", name)
	}
	got, err := w.shared().ListSharedMetrics(w.as(nobody()), &jobsv1.ListSharedMetricsRequest{
		Token: pinned.GetToken(), Run: new(int32(1)), Keys: []string{"none"}, Limit: new(int32(1)),
	})
	require.NoError(t, err)
	require.Empty(t, got.GetSeries())
	_, err = w.shares().RevokeShare(w.as(alice()), &jobsv1.RevokeShareRequest{ShareId: pinned.GetId()})
	require.NoError(t, err)
	require.Zero(t, w.count(`share_pin`), "revoking deletes the pinned content")
}

func TestListAndRevokeShares(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
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
	require.Len(t, list(admin()), 2, "an admin sees all links")
	require.Empty(t, list(user("bob", authn.RoleOperator)))

	revoke := func(as authn.Caller, shareID string) error {
		_, err := w.shares().RevokeShare(w.as(as), &jobsv1.RevokeShareRequest{ShareId: shareID})
		return err
	}
	hidden, absent := revoke(alice(), theirs.GetId()), revoke(alice(), w.ids.New(id.Share))
	require.True(t, fault.Is(hidden, fault.Absent) && fault.Is(absent, fault.Absent), "%v %v", hidden, absent)
	require.True(t, fault.Is(revoke(alice(), "x"), fault.Invalid))
	// Revoking twice is not an error.
	for range 2 {
		require.NoError(t, revoke(alice(), mine.GetId()))
	}
	w.gone("revoked", mine.GetToken())
	require.NoError(t, revoke(admin(), theirs.GetId()))
	require.Equal(t, 2, w.count(`audit WHERE action = 'share.revoke'`))
	require.NotNil(t, list(alice())[0].GetRevokedAt(), "a revoked link is still listed")
}

func TestCreateShareRepeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
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

func mint(t *testing.T, kind string) string {
	t.Helper()
	tok, err := secret.Mint(rand.Reader, kind)
	require.NoError(t, err)
	return tok.Reveal()
}

// GetRunMetrics returns one point of the series loss for any run.
func (f *fakeIngest) GetRunMetrics(
	_ context.Context, req *ingestpeerv1.GetRunMetricsRequest, _ ...grpc.CallOption,
) (*ingestpeerv1.GetRunMetricsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	value := 0.5
	if f.loss != 0 {
		value = f.loss
	}
	series := &ingestv1.MetricSeries{Key: "loss", Points: []*ingestv1.MetricPoint{{Step: 1, Value: value, Ts: timestamppb.Now(), Attempt: 1}}}
	if len(req.GetKeys()) > 0 && req.GetKeys()[0] != "loss" {
		return &ingestpeerv1.GetRunMetricsResponse{}, nil
	}
	return &ingestpeerv1.GetRunMetricsResponse{Series: []*ingestv1.MetricSeries{series}}, nil
}

func (f *fakeIngest) report(_ string, value float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loss = value
}

// GetRunHparams returns the same hyperparameters for any run.
func (f *fakeIngest) GetRunHparams(
	context.Context, *ingestpeerv1.GetRunHparamsRequest, ...grpc.CallOption,
) (*ingestpeerv1.GetRunHparamsResponse, error) {
	return &ingestpeerv1.GetRunHparamsResponse{Params: []byte(`{"optim.lr":0.1}`)}, nil
}

// GetRunSamples returns one sample for any run.
func (f *fakeIngest) GetRunSamples(
	context.Context, *ingestpeerv1.GetRunSamplesRequest, ...grpc.CallOption,
) (*ingestpeerv1.GetRunSamplesResponse, error) {
	return &ingestpeerv1.GetRunSamplesResponse{Samples: []*ingestv1.Sample{{
		Step: 7, User: []byte(`"shown question"`), Assistant: []byte(`"shown answer"`), Env: []byte(`"hidden env"`), Extra: []byte(`{"hidden":1}`),
	}}}, nil
}
