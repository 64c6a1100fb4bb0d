package jobs_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

func (w *harness) shares() jobsv1.ShareServiceClient {
	return jobsv1.NewShareServiceClient(w.dial("gateway"))
}

func (w *harness) shared() jobsv1.SharedServiceClient {
	return jobsv1.NewSharedServiceClient(w.dial("gateway"))
}

// all changes the request so that the link shows every field.
func all(r *jobsv1.CreateShareRequest) { r.Fields = []string{"metrics", "config", "samples"} }

func (w *harness) share(as authn.Caller, targets []string, change ...func(*jobsv1.CreateShareRequest)) (*jobsv1.Share, error) {
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

func (w *harness) shareOf(targets []string, change ...func(*jobsv1.CreateShareRequest)) *jobsv1.Share {
	w.t.Helper()
	s, err := w.share(alice(), targets, change...)
	require.NoError(w.t, err)
	return s
}

// views returns, for each field, the public call that reads it; the field "" is the link itself.
func (w *harness) views(token string) map[string]func() (proto.Message, error) {
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

// gone requires that every call with the token returns the same 404.
func (w *harness) gone(why, token string) {
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
	w := newHarness(t)
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
	require.Zero(t, w.count(`share WHERE share::text LIKE '%`+s.GetToken()+`%'`), "only the token's hash must be stored")
}

func TestSharedLinkFieldAccess(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
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
				require.Equal(t, "Not Found", fault.From(err).Text(), "a link with the fields %v must not show %s: %v", c.opens, name, err)
			}
		}
	}
}

func TestInvalidSharedLinksIndistinguishable(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
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
	require.True(t, fault.Is(err, fault.Invalid), "an invalid query must be reported even without a valid token: %v", err)
}

func TestSharedLinkEndsWithOwnerAccess(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
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

// protected submits a job that is bound to a protected dataset.
func (w *harness) protected() *jobsv1.Job {
	return w.submit(func(r *jobsv1.SubmitJobRequest) { r.Spec.Bindings.Datasets["train"] = "ds/default/protected@1" })
}

// Links of a run stop working when a dataset of the run becomes protected. A run that is protected from the beginning
// cannot be shared at all (TestCreateShareRefusals).
func TestShare_datasetProtectedLater(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	j := w.submit()
	live := w.shareOf([]string{j.GetId()}, all)
	pinned := w.shareOf([]string{j.GetId()}, all, func(r *jobsv1.CreateShareRequest) { r.Pinned = true })
	for _, s := range []*jobsv1.Share{live, pinned} {
		for name, view := range w.views(s.GetToken()) {
			_, err := view()
			require.NoError(t, err, name)
		}
	}
	w.catalog.protect("ds/default/pairs@1")
	w.gone("the dataset is protected now", live.GetToken())
	w.gone("the dataset is protected now", pinned.GetToken())
}

func TestPinnedAndLiveLinks(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
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
		require.NotEqual(t, before[name], after[name], "%s of the live link must show the change", name)
	}
	got, err := w.shared().ListSharedMetrics(w.as(nobody()), &jobsv1.ListSharedMetricsRequest{
		Token: pinned.GetToken(), Run: new(int32(1)), Keys: []string{"none"}, Limit: new(int32(1)),
	})
	require.NoError(t, err)
	require.Empty(t, got.GetSeries())
	_, err = w.shares().RevokeShare(w.as(alice()), &jobsv1.RevokeShareRequest{ShareId: pinned.GetId()})
	require.NoError(t, err)
	require.Zero(t, w.count(`share_pin`), "revoking must delete the pinned content")
}

func mint(t *testing.T, kind string) string {
	t.Helper()
	tok, err := secret.Mint(rand.Reader, kind)
	require.NoError(t, err)
	return tok.Reveal()
}
