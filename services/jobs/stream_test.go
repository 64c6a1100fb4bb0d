package jobs_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

func TestNewStreamSupersedesOld(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	a.wait("no work", func(works []*jobsv1.Work) bool { return len(works) == 0 })
	old := &agent{w: w, nodeID: a.nodeID, inv: a.inv, stream: a.stream, changed: a.changed}
	newer := &agent{w: w, nodeID: a.nodeID, inv: a.inv, boundary: a.boundary, works: map[string]*jobsv1.ObservedWork{}, forgotten: map[string]bool{}}
	newer.connect()
	require.Eventually(t, func() bool {
		old.heartbeat()
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.err != nil
	}, patience, 20*time.Millisecond, "the old stream must end")
	require.True(t, fault.HasCode(a.err, "superseded"), "%v", a.err)
	w.submit()
	newer.attempt()
}

func TestStreamRequiresOwnHello(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	for name, c := range map[string]struct {
		first *jobsv1.ConnectRequest
		kind  fault.Kind
	}{
		"no hello":     {&jobsv1.ConnectRequest{Message: &jobsv1.ConnectRequest_Heartbeat{Heartbeat: &jobsv1.Heartbeat{}}}, fault.Refused},
		"another node": {&jobsv1.ConnectRequest{Message: &jobsv1.ConnectRequest_Hello{Hello: &jobsv1.AgentHello{NodeId: "nod_x"}}}, fault.Forbidden},
	} {
		stream, err := a.client.Connect(t.Context())
		require.NoError(t, err)
		require.NoError(t, stream.Send(c.first))
		_, err = stream.Recv()
		require.True(t, fault.Is(err, c.kind), "%s: %v", name, err)
	}
	stranger := jobsv1.NewAgentServiceClient(w.dial("node/nod_stranger"))
	stream, err := stranger.Connect(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&jobsv1.ConnectRequest{Message: &jobsv1.ConnectRequest_Hello{Hello: &jobsv1.AgentHello{NodeId: "nod_stranger"}}}))
	_, err = stream.Recv()
	require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
}

func TestDesiredWorkResentOnHeartbeat(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	a.wait("no work", func(works []*jobsv1.Work) bool { return len(works) == 0 })
	for range 2 {
		a.mu.Lock()
		a.desired = nil
		a.mu.Unlock()
		a.wait("no work, again", func(works []*jobsv1.Work) bool { return len(works) == 0 })
	}
}

func TestUnknownWorkDesiredGone(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	a.see(&jobsv1.Work{WorkId: "wrk_old", Generation: 3, Fence: 2}, jobsv1.Phase_PHASE_RUNNING)
	works := a.wait("desired gone", func(works []*jobsv1.Work) bool { return len(works) == 1 })
	require.Equal(t, jobsv1.Desired_DESIRED_GONE, works[0].GetDesired())
	require.EqualValues(t, 3, works[0].GetGeneration())
	require.EqualValues(t, 2, works[0].GetFence())
}

func TestReportsWithOtherFenceIgnored(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit()
	work := a.attempt()
	a.see(work, jobsv1.Phase_PHASE_EXITED, func(o *jobsv1.ObservedWork) { o.Fence, o.Exit = 7, &jobsv1.Exit{} })
	a.see(work, jobsv1.Phase_PHASE_EXITED, func(o *jobsv1.ObservedWork) { o.Generation, o.Exit = 7, &jobsv1.Exit{} })
	a.see(work, jobsv1.Phase_PHASE_PREPARING)
	got := w.await(j.GetId(), jobsv1.JobState_JOB_STATE_STARTING)
	require.EqualValues(t, 1, got.GetAttempt())
}

func TestIngestTokenOfProtectedRun(t *testing.T) {
	t.Parallel()
	for _, protected := range []bool{false, true} {
		w := newHarness(t)
		a := w.join(w.fleet("cpu"), cpuNode())
		submit := w.protected
		if !protected {
			submit = func() *jobsv1.Job { return w.submit() }
		}
		j := submit()
		work := a.attempt()
		tok, err := a.client.MintIngestToken(t.Context(), &jobsv1.MintIngestTokenRequest{
			WorkId: work.GetWorkId(), Generation: work.GetGeneration(), Fence: work.GetFence(),
		})
		require.NoError(t, err)
		grant, err := w.runPeer().ResolveIngestToken(t.Context(), &jobspeerv1.ResolveIngestTokenRequest{TokenHash: secret.Hash(tok.GetToken())})
		require.NoError(t, err)
		require.Equal(t, protected, grant.GetWithhold())
		owner, err := w.runPeer().GetRunOwner(t.Context(), &jobspeerv1.GetRunOwnerRequest{Id: j.GetId()})
		require.NoError(t, err)
		require.Equal(t, protected, owner.GetProtected())
		for _, o := range []*jobspeerv1.RunOwner{owner, grant.GetOwner()} {
			require.Equal(t, map[string]string{"train/loss": "minimize"}, o.GetGoals(), "the goals of the recipe")
		}
		if !protected {
			require.Nil(t, grant.GetDisclosure())
			continue
		}
		require.Equal(t, []string{"dst_of_train"}, owner.GetProtectedDatasets())
		require.True(t, proto.Equal(&jobspeerv1.Disclosure{
			Metrics: []string{"train/loss"}, Formats: []string{"npz"}, Params: []*jobspeerv1.DisclosedParam{{Key: "optim.lr"}},
		}, grant.GetDisclosure()), "%v", grant.GetDisclosure())
	}
}

func TestMintAndResolveIngestToken(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit()
	work := a.attempt()
	mint := func(change ...func(*jobsv1.MintIngestTokenRequest)) (string, error) {
		req := &jobsv1.MintIngestTokenRequest{WorkId: work.GetWorkId(), Generation: work.GetGeneration(), Fence: work.GetFence()}
		for _, c := range change {
			c(req)
		}
		tok, err := a.client.MintIngestToken(t.Context(), req)
		return tok.GetToken(), err
	}
	resolve := func(token string) error {
		_, err := w.runPeer().ResolveIngestToken(t.Context(), &jobspeerv1.ResolveIngestTokenRequest{TokenHash: secret.Hash(token)})
		return err
	}
	first, err := mint()
	require.NoError(t, err)
	require.Equal(t, secret.KindIngest, secret.Kind(first))
	require.NoError(t, resolve(first))
	second, err := mint()
	require.NoError(t, err)
	require.True(t, fault.Is(resolve(first), fault.Unauthenticated), "a new token must revoke the previous one")
	require.NoError(t, resolve(second))
	require.True(t, fault.Is(resolve("ing_unknown"), fault.Unauthenticated))
	_, err = mint(func(r *jobsv1.MintIngestTokenRequest) { r.Fence++ })
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	_, err = mint(func(r *jobsv1.MintIngestTokenRequest) { r.Generation++ })
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	other := w.join(w.fleet("cpu2"), cpuNode())
	_, err = other.client.MintIngestToken(t.Context(), &jobsv1.MintIngestTokenRequest{WorkId: work.GetWorkId(), Generation: 1, Fence: 1})
	require.True(t, fault.Is(err, fault.Absent), "the work item must look absent to another node: %v", err)
	a.see(work, jobsv1.Phase_PHASE_RUNNING)
	w.awaitJob(j.GetId(), "marked", func(j *jobsv1.Job) bool { return j.GetExecutorRunningAt() != nil })
	_, err = mint()
	require.True(t, fault.Is(err, fault.Conflict), "a token must be refused once the process has started: %v", err)
	require.NoError(t, resolve(second))
	var plain int
	require.NoError(t, w.pool.QueryRow(t.Context(), `SELECT count(*) FROM ingest_token WHERE encode(hash, 'escape') LIKE 'ing_%'`).Scan(&plain))
	require.Zero(t, plain)
}

func TestSignDownloadOnlyForSpecObjects(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	w.submit()
	work := a.attempt()
	sign := func(uri string) (*jobsv1.SignedDownload, error) {
		return a.client.SignDownload(t.Context(), &jobsv1.SignDownloadRequest{
			WorkId: work.GetWorkId(), Generation: work.GetGeneration(), Fence: work.GetFence(), Uri: uri,
		})
	}
	for _, uri := range []string{work.GetAttempt().GetPackage().GetUri(), work.GetAttempt().GetDatasets()[0].GetFiles()[0].GetUri()} {
		signed, err := sign(uri)
		require.NoError(t, err)
		require.Contains(t, signed.GetUrl(), "/api/blobs/")
	}
	_, err := sign("blob://projects/p/blobs/bb")
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

func TestWatchJobResume(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit()
	work := a.attempt()
	a.see(work, jobsv1.Phase_PHASE_PREPARING)
	a.see(work, jobsv1.Phase_PHASE_RUNNING)
	_, err := w.reports(j, 1, "running")
	require.NoError(t, err)
	a.exit(work, 0, "", "")
	whole := w.watch(j.GetId(), 0)
	states := []string{}
	for i, m := range whole {
		require.EqualValues(t, i+1, m.GetSeq())
		states = append(states, m.GetJob().GetState().String())
	}
	require.Equal(t, "JOB_STATE_QUEUED", states[0])
	require.Equal(t, "JOB_STATE_SUCCEEDED", states[len(states)-1])
	for after := range int64(len(whole)) {
		rest := w.watch(j.GetRunId(), after)
		require.Len(t, rest, len(whole)-int(after))
		require.Equal(t, whole[after].String(), rest[0].String(), "a resumed watch must send the same change under the same number")
	}
	require.Empty(t, w.watch(j.GetId(), int64(len(whole))), "a watch after the last change of an ended job must end at once")
}

// A position beyond the job's last change belongs to another stream. A watch that waited there would miss every change.
func TestWatchJobAfterLastChangeRefused(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	j := w.submit()
	refused := func(id string, after, last int64) {
		ctx, cancel := context.WithTimeout(w.as(alice()), patience)
		defer cancel()
		stream, err := w.jobs().WatchJob(ctx, &jobsv1.WatchJobRequest{Id: id, After: after})
		require.NoError(t, err)
		_, err = stream.Recv()
		f := fault.From(err)
		require.Equal(t, fault.Invalid, f.Kind, "a watch after change %d must be refused: %v", after, err)
		require.Equal(t, []any{"after"}, f.Fields[0].Loc)
		require.Equal(t, fault.TypeLessThanEqual, f.Fields[0].Type)
		require.Equal(t, fmt.Sprint(last), fmt.Sprint(f.Fields[0].Ctx["le"]))
	}
	refused(j.GetId(), 2, 1)
	refused(j.GetRunId(), 1<<62, 1)
	_, err := w.jobs().StopJob(w.as(alice()), &jobsv1.StopJobRequest{JobId: j.GetId()})
	require.NoError(t, err)
	last := int64(len(w.watch(j.GetId(), 0)))
	refused(j.GetId(), last+1, last)
	require.Empty(t, w.watch(j.GetRunId(), last), "the last change itself must be a valid cursor")
}

// The response header is sent before the first change, so that an authorized caller knows that the watch is open.
func TestWatchJobSendsHeaderBeforeChange(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	j := w.submit()
	opened := func(job string) bool {
		ctx, cancel := context.WithTimeout(w.as(alice()), patience)
		defer cancel()
		stream, err := w.jobs().WatchJob(ctx, &jobsv1.WatchJobRequest{Id: job, After: 1})
		require.NoError(t, err)
		header, _ := stream.Header() // if there is no header, the stream has ended
		return header != nil
	}
	require.True(t, opened(j.GetId()))
	require.False(t, opened("job_00000000000000000000000000"))
}

// watch opens a watch of a job and reads it until it ends.
func (w *harness) watch(id string, after int64) []*jobsv1.WatchJobResponse {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.as(alice()), patience)
	defer cancel()
	stream, err := w.jobs().WatchJob(ctx, &jobsv1.WatchJobRequest{Id: id, After: after})
	require.NoError(w.t, err)
	var all []*jobsv1.WatchJobResponse
	for {
		m, err := stream.Recv()
		if err != nil {
			require.EqualError(w.t, err, "EOF")
			return all
		}
		all = append(all, m)
	}
}
