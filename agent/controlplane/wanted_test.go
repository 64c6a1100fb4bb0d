package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/signalbox-dev/signalbox/agent/executor"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// bare returns a work that should run, as the control plane lists it: without its spec.
func bare(id string) *jobsv1.Work {
	return &jobsv1.Work{
		WorkId: id, Generation: 1, Fence: 1, Kind: jobsv1.WorkKind_WORK_KIND_ATTEMPT, Desired: jobsv1.Desired_DESIRED_RUNNING,
	}
}

// FetchWork sends the work with its spec in chunks of one byte. It returns an error for a work that the test has not
// stored.
func (p *fakeControlPlane) FetchWork(r *jobsv1.FetchWorkRequest, s grpc.ServerStreamingServer[jobsv1.WorkChunk]) error {
	p.mu.Lock()
	spec := p.specs[r.GetWorkId()]
	p.fetches = append(p.fetches, r.GetWorkId())
	p.mu.Unlock()
	if spec == nil {
		return fault.New(fault.Unavailable, "", "the database is down")
	}
	w := bare(r.GetWorkId())
	w.Spec = &jobsv1.Work_Attempt{Attempt: spec}
	raw, err := proto.Marshal(w)
	if err != nil {
		return err
	}
	for b := range slices.Chunk(raw, 1) {
		if err := s.Send(&jobsv1.WorkChunk{Data: b}); err != nil {
			return err
		}
	}
	return nil
}

func (p *fakeControlPlane) store(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.specs == nil {
		p.specs = map[string]*jobsv1.AttemptSpec{}
	}
	p.specs[id] = &jobsv1.AttemptSpec{JobId: "job of " + id}
}

func (p *fakeControlPlane) fetched() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.fetches)
}

func jobsOf(works []executor.Work) map[string]string {
	all := map[string]string{}
	for _, w := range works {
		all[w.WorkID] = ""
		if w.Attempt != nil {
			all[w.WorkID] = w.Attempt.JobID
		}
	}
	return all
}

func TestSession_fetchesUnknownWorks(t *testing.T) {
	t.Parallel()
	p := newFakeControlPlane(t)
	p.store("a")
	p.store("b")
	m := p.link(filepath.Join(t.TempDir(), "node"))
	s := p.session()
	require.True(t, s.hello.GetFetchesWorks())
	await(t, s.heard, "the first observations")
	m.host.setObserved(running("known"))
	await(t, s.heard, "the observation")
	require.NoError(t, s.Send(&jobsv1.ConnectResponse{Message: &jobsv1.ConnectResponse_Desired{Desired: &jobsv1.DesiredWorks{
		Works: []*jobsv1.Work{bare("a"), bare("b"), bare("known")}, IngestEndpoint: "http://x/api/ingest",
	}}}))
	first := await(t, m.host.applied, "the list without the works that must be fetched")
	require.Equal(t, map[string]string{"known": ""}, jobsOf(first))
	require.Equal(t, "http://x/api/ingest", first[0].IngestEndpoint)
	require.Equal(t, map[string]string{"a": "job of a", "known": ""}, jobsOf(await(t, m.host.applied, "the list with a")))
	require.Equal(t, map[string]string{"a": "job of a", "b": "job of b", "known": ""}, jobsOf(await(t, m.host.applied, "the list with b")))
	m.host.setObserved(running("known"), running("a"), running("b"))
	await(t, s.heard, "the observation of the new works")
	s.desire(t, bare("a"), bare("b"), bare("known"))
	require.Equal(t, map[string]string{"a": "", "b": "", "known": ""}, jobsOf(await(t, m.host.applied, "the next list")))
	require.Equal(t, []string{"a", "b"}, p.fetched(), "each work must be fetched once")
	m.stop()
}

// A failed fetch does not delay other works, and a stop is applied at once.
func TestSession_failedFetchIsRepeatedWithNextList(t *testing.T) {
	t.Parallel()
	p := newFakeControlPlane(t)
	p.store("b")
	m := p.link(filepath.Join(t.TempDir(), "node"))
	s := p.session()
	s.desire(t, bare("a"), bare("b"))
	require.Empty(t, await(t, m.host.applied, "the first list"))
	require.Equal(t, map[string]string{"b": "job of b"}, jobsOf(await(t, m.host.applied, "the list with b")))
	p.store("a")
	s.desire(t, bare("a"), &jobsv1.Work{WorkId: "b", Generation: 1, Fence: 1, Desired: jobsv1.Desired_DESIRED_GONE})
	next := await(t, m.host.applied, "the next list")
	require.Equal(t, executor.DesiredGone, next[0].Desired)
	require.Equal(t, map[string]string{"a": "job of a", "b": ""}, jobsOf(await(t, m.host.applied, "the list with a")))
	m.stop()
}

// pages is a client that returns signed URLs of downloads in pages.
type pages struct {
	agents
	sizes []int
	err   error
}

func (p *pages) SignDownloads(_ context.Context, r *jobsv1.SignDownloadsRequest, _ ...grpc.CallOption) (*jobsv1.SignDownloadsResponse, error) {
	p.sizes = append(p.sizes, len(r.GetUris()))
	resp := &jobsv1.SignDownloadsResponse{}
	for _, uri := range r.GetUris() {
		resp.Downloads = append(resp.Downloads, &jobsv1.SignedDownload{Url: fmt.Sprintf("%s#%d", uri, len(p.sizes))})
	}
	return resp, p.err
}

func announced(n int) []executor.ObjectRef {
	refs := make([]executor.ObjectRef, n)
	for i := range refs {
		refs[i].URI = fmt.Sprintf("blob://%d", i)
	}
	return refs
}

func TestLink_Expect_signsPages(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Unix(0, 0))
	l, p := New(Deps{HTTP: &http.Client{}, Clock: clk}), &pages{}
	l.agents = p
	refs := announced(1200)
	done := l.Expect(key(), refs)
	for i, r := range refs {
		url, err := l.signed(t.Context(), key(), r.URI)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%s#%d", r.URI, i/500+1), url)
	}
	require.Equal(t, []int{500, 500, 200}, p.sizes)
	url, err := l.signed(t.Context(), key(), "blob://7")
	require.NoError(t, err)
	require.Equal(t, "blob://7#4", url, "a retry must use a new URL")
	require.Equal(t, []int{500, 500, 200, 1}, p.sizes, "downloaded objects must not be signed again")
	done()
	require.Empty(t, l.batches)
}

func TestLink_Expect_oldURLIsNotUsed(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Unix(0, 0))
	l, p := New(Deps{HTTP: &http.Client{}, Clock: clk}), &pages{}
	l.agents = p
	defer l.Expect(key(), announced(3))()
	_, err := l.signed(t.Context(), key(), "blob://0")
	require.NoError(t, err)
	clk.Advance(useWithin)
	url, err := l.signed(t.Context(), key(), "blob://1")
	require.NoError(t, err)
	require.Equal(t, "blob://1#2", url)
	require.Equal(t, []int{3, 2}, p.sizes)
}

// A control plane of the previous version cannot sign several downloads in one call.
func TestLink_Expect_controlPlaneOfPreviousVersion(t *testing.T) {
	t.Parallel()
	l := New(Deps{HTTP: &http.Client{}, Clock: clock.NewFake(time.Unix(0, 0))})
	p := &pages{agents: agents{url: "http://one"}, err: fault.From(status.Error(codes.Unimplemented, "unknown method"))}
	l.agents = p
	defer l.Expect(key(), announced(3))()
	url, err := l.signed(t.Context(), key(), "blob://1")
	require.NoError(t, err)
	require.Equal(t, "http://one", url)
	require.Equal(t, "blob://1", p.got.GetUri())
}
