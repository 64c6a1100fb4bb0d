package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// running returns the observation of a running work with the given id.
func running(id string) executor.Observation {
	return executor.Observation{Key: executor.Key{WorkID: id, Generation: 1, Fence: 1}, Phase: executor.PhaseRunning}
}

func ids(o *jobsv1.ObservedWorks) []string {
	all := []string{}
	for _, w := range o.GetWorks() {
		all = append(all, w.GetWorkId())
	}
	return all
}

func TestSession_startsWithHelloAndFullState(t *testing.T) {
	t.Parallel()
	p := newFakeControlPlane(t)
	m := p.link(filepath.Join(t.TempDir(), "node"))
	s := p.session()
	require.Equal(t, "nod_1", s.hello.GetNodeId())
	require.Equal(t, "inc", s.hello.GetIncarnation())
	require.Equal(t, []string{"command"}, s.hello.GetDrivers())
	require.Equal(t, []string{"cuda"}, s.hello.GetPythons())
	require.True(t, s.hello.GetBuildsEnvironments())
	require.Equal(t, int32(7), s.hello.GetInventory().GetCpus())
	require.Equal(t, "own_user", s.hello.GetBoundary().GetKind())
	require.Empty(t, ids(await(t, s.heard, "the complete state, even if empty")))
	m.host.setObserved(running("a"), running("b"))
	require.Equal(t, []string{"a", "b"}, ids(await(t, s.heard, "a change")))
	m.stop()
}

func TestSession_reconnects(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{
		"clean end": nil, "the control plane restarts": fault.New(fault.Unavailable, "draining", "x"),
		"newer stream": fault.New(fault.Conflict, "superseded", "x"), "other error": errors.New("x"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newFakeControlPlane(t)
			m := p.link(filepath.Join(t.TempDir(), "node"))
			first := p.session()
			first.welcome(t, 3600)
			first.end <- end
			m.host.setObserved(running("a"))
			second := p.session()
			require.Equal(t, first.hello.GetIncarnation(), second.hello.GetIncarnation())
			for got := ids(await(t, second.heard, "the complete state")); len(got) == 0; {
				got = ids(await(t, second.heard, "the complete state with the change"))
			}
			second.desire(t, &jobsv1.Work{WorkId: "a", Desired: jobsv1.Desired_DESIRED_GONE})
			require.Equal(t, "a", await(t, m.host.applied, "desired works over the new connection")[0].WorkID)
			m.stop()
		})
	}
}

func TestSession_heartbeatIntervalFromWelcome(t *testing.T) {
	t.Parallel()
	p := newFakeControlPlane(t)
	m := p.link(filepath.Join(t.TempDir(), "node"))
	s := p.session()
	await(t, s.heard, "the first observations")
	s.welcome(t, 7)
	// The welcome was sent before the desired works, so the link has received it when the works arrive. Each
	// Flush is one more iteration of the loop in speak. After 40 iterations the loop has almost certainly
	// selected the welcome.
	s.desire(t)
	await(t, m.host.applied, "the desired works")
	for range 40 {
		require.NoError(t, m.Flush(t.Context()))
		await(t, s.heard, "the flushed observations")
	}
	p.awaitTimers()
	p.clock.Advance(7 * time.Second)
	await(t, s.heard, "the heartbeat")
	m.stop()
}

func TestSession_appliesCompleteListsInOrder(t *testing.T) {
	t.Parallel()
	p := newFakeControlPlane(t)
	m := p.link(filepath.Join(t.TempDir(), "node"))
	s := p.session()
	attempt := &jobsv1.Work{
		WorkId: "a", Generation: 2, Fence: 3, Kind: jobsv1.WorkKind_WORK_KIND_ATTEMPT, Desired: jobsv1.Desired_DESIRED_RUNNING,
		Spec: &jobsv1.Work_Attempt{Attempt: &jobsv1.AttemptSpec{JobId: "j"}},
	}
	s.desire(t, attempt, &jobsv1.Work{WorkId: "b", Desired: jobsv1.Desired_DESIRED_STOPPED})
	s.desire(t)
	got := await(t, m.host.applied, "the first list")
	require.Len(t, got, 2)
	require.Equal(t, executor.Key{WorkID: "a", Generation: 2, Fence: 3}, got[0].Key)
	require.Equal(t, "j", got[0].Attempt.JobID)
	require.Equal(t, executor.DesiredStopped, got[1].Desired)
	require.Empty(t, await(t, m.host.applied, "the second list, which is empty"))
	m.stop()
}

func TestFromWork_unknownValues(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		work *jobsv1.Work
		ok   bool
	}{
		"unknown desired state":         {&jobsv1.Work{WorkId: "a", Desired: 99, Kind: jobsv1.WorkKind_WORK_KIND_ATTEMPT}, false},
		"no desired state":              {&jobsv1.Work{WorkId: "a", Kind: jobsv1.WorkKind_WORK_KIND_ATTEMPT}, false},
		"unknown kind, desired running": {&jobsv1.Work{WorkId: "a", Desired: jobsv1.Desired_DESIRED_RUNNING, Kind: 99}, false},
		"unknown kind, desired stopped": {&jobsv1.Work{WorkId: "a", Desired: jobsv1.Desired_DESIRED_STOPPED, Kind: 99}, true},
		"unknown kind, desired gone":    {&jobsv1.Work{WorkId: "a", Desired: jobsv1.Desired_DESIRED_GONE, Kind: 99}, true},
	} {
		w, err := fromWork(c.work)
		require.Equal(t, c.ok, err == nil, name)
		require.Equal(t, "a", w.WorkID, "%s: the work must stay in the list, or it would be ended", name)
	}
}

func TestLink_Flush(t *testing.T) {
	t.Parallel()
	p := newFakeControlPlane(t)
	m := p.link(filepath.Join(t.TempDir(), "node"))
	s := p.session()
	await(t, s.heard, "the first observations")
	m.host.mu.Lock()
	m.host.seen = []executor.Observation{running("last")}
	m.host.mu.Unlock()
	require.NoError(t, m.Flush(t.Context()))
	m.stop()
	// The stream outlives the link by up to farewell, so messages in transit still arrive.
	require.Equal(t, []string{"last"}, ids(await(t, s.heard, "the last observations")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, m.Flush(ctx), context.Canceled, "Flush must fail after the link has ended")
}

func TestMembership_LoadOrJoin_tokenOnlyForFirstJoin(t *testing.T) {
	t.Parallel()
	j := &joiner{}
	m := membership(t, j)
	calls := 0
	m.Token = func(context.Context) (secret.String, error) { calls++; return secret.New("t"), nil }
	for range 3 {
		_, err := m.LoadOrJoin(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, 1, calls)
	require.Equal(t, 1, j.calls)
	m.Token = func(context.Context) (secret.String, error) { return secret.String{}, errors.New("no token") }
	require.NoError(t, os.Remove(filepath.Join(m.Dir, nodeFile)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.LoadOrJoin(ctx)
	require.ErrorContains(t, err, "no token")
}

func TestMembership_LoadOrJoin_incompleteJoinIsRepeated(t *testing.T) {
	t.Parallel()
	j := &joiner{}
	m := membership(t, j)
	_, err := m.LoadOrJoin(t.Context())
	require.NoError(t, err)
	// Load reads node.json, which is written last. Without it the join was incomplete.
	require.NoError(t, os.Remove(filepath.Join(m.Dir, nodeFile)))
	n, err := m.LoadOrJoin(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, j.calls)
	require.Equal(t, "nod_1", n.ID)
}

func TestMembership_LoadOrJoin_unreadableNodeFails(t *testing.T) {
	t.Parallel()
	j := &joiner{}
	m := membership(t, j)
	require.NoError(t, os.MkdirAll(m.Dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(m.Dir, nodeFile), []byte("{"), 0o600))
	_, err := m.LoadOrJoin(t.Context())
	require.ErrorContains(t, err, nodeFile)
	require.Zero(t, j.calls, "a damaged file must not cause a second join")
}

func TestOverHTTP_Join_requestFields(t *testing.T) {
	t.Parallel()
	var got map[string]any
	var path, kind string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, kind = r.Method+" "+r.URL.Path, r.Header.Get("Content-Type")
		_ = json.NewDecoder(r.Body).Decode(&got)
		_, _ = io.WriteString(w, `{"node_id":"n","agent_address":"h:1"}`)
	}))
	defer server.Close()
	_, err := OverHTTP{Server: server.URL, Client: server.Client()}.Join(t.Context(), &jobsv1.JoinFleetRequest{
		Token: "t", Hostname: "h", CertificateRequest: "r",
		Inventory: &jobsv1.Inventory{Cpus: 1, MemoryBytes: 2, Gpus: 3, Limits: "rlimit", Version: "v"},
	})
	require.NoError(t, err)
	require.Equal(t, "POST /api/fleets/join", path)
	require.Equal(t, "application/json", kind)
	require.Empty(t, cmp.Diff(map[string]any{
		"token": "t", "hostname": "h", "certificate_request": "r",
		"inventory": map[string]any{"cpus": 1.0, "memory_bytes": 2.0, "gpus": 3.0, "limits": "rlimit", "version": "v"},
	}, got))
}

func TestOverHTTP_Join_endlessResponse(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"node_id":"`)
		for r := strings.Repeat("n", 64<<10); ; {
			if _, err := io.WriteString(w, r); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	_, err := OverHTTP{Server: server.URL, Client: server.Client()}.Join(t.Context(), &jobsv1.JoinFleetRequest{})
	require.ErrorContains(t, err, "no node")
}

func TestOverHTTP_Join_refusalMessageBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, long+"the join token is used up")
	}))
	defer server.Close()
	_, err := OverHTTP{Server: server.URL, Client: server.Client()}.Join(t.Context(), &jobsv1.JoinFleetRequest{Token: "s3cret"})
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "used up")
	require.Less(t, len(err.Error()), 2048)
	require.NotContains(t, err.Error(), "s3cret")
}

func TestLink_callsAfterDisconnectAreTemporary(t *testing.T) {
	t.Parallel()
	p := newFakeControlPlane(t)
	m := p.link(filepath.Join(t.TempDir(), "node"))
	p.session()
	// The fake control plane implements neither method, so both calls fail. The error after the disconnect must not be
	// permanent.
	_, err := m.MintIngestToken(t.Context(), key())
	require.Error(t, err)
	m.stop()
	_, err = m.Download(t.Context(), key(), executor.ObjectRef{URI: "blob://x"})
	require.Error(t, err)
	require.NotErrorIs(t, err, executor.ErrPermanent)
}

func TestSession_undecodableWorkStaysInList(t *testing.T) {
	t.Parallel()
	p := newFakeControlPlane(t)
	m := p.link(filepath.Join(t.TempDir(), "node"))
	s := p.session()
	s.desire(t,
		&jobsv1.Work{WorkId: "odd", Generation: 2, Fence: 3, Desired: 99},
		&jobsv1.Work{WorkId: "plain", Desired: jobsv1.Desired_DESIRED_GONE})
	got := await(t, m.host.applied, "the list")
	require.Len(t, got, 2, "a work that cannot be decoded must stay in the list, or the executor would end it")
	require.Equal(t, executor.Key{WorkID: "odd", Generation: 2, Fence: 3}, got[0].Key)
	require.Empty(t, got[0].Desired, "the desired state must not be guessed")
	m.stop()
}
