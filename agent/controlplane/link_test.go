package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/signalbox-dev/signalbox/agent/executor"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// agents is a fake client of the AgentService. SignDownload returns the URL in the field url. Every method returns the
// error in the field err.
type agents struct {
	jobsv1.AgentServiceClient
	url string
	err error
	got *jobsv1.SignDownloadRequest
}

func (a *agents) SignDownload(_ context.Context, r *jobsv1.SignDownloadRequest, _ ...grpc.CallOption) (*jobsv1.SignedDownload, error) {
	a.got = r
	return &jobsv1.SignedDownload{Url: a.url}, a.err
}

func (a *agents) MintIngestToken(context.Context, *jobsv1.MintIngestTokenRequest, ...grpc.CallOption) (*jobsv1.IngestToken, error) {
	return &jobsv1.IngestToken{Token: "tok", ExpiresAt: timestamppb.New(time.Unix(9, 0))}, a.err
}

func (a *agents) GrantLease(_ context.Context, r *jobsv1.GrantLeaseRequest, _ ...grpc.CallOption) (*jobsv1.GrantedLease, error) {
	return &jobsv1.GrantedLease{LeaseToken: fmt.Sprint(r.GetWorkId(), r.GetGeneration(), r.GetFence())}, a.err
}

func linked(a *agents) *Link {
	l := New(Deps{HTTP: &http.Client{}})
	l.agents = a
	return l
}

func key() executor.Key { return executor.Key{WorkID: "w", Generation: 2, Fence: 3} }

func TestLink_Download(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte("data"))
	}))
	defer store.Close()
	a := &agents{url: store.URL + "/api/blobs/x?signature=s3cret"}
	body, err := linked(a).Download(t.Context(), key(), executor.ObjectRef{URI: "blob://x"})
	require.NoError(t, err)
	data, err := io.ReadAll(body)
	require.NoError(t, err)
	require.NoError(t, body.Close())
	require.Equal(t, "data", string(data))
	require.Equal(t, "blob://x", a.got.GetUri())
	require.Equal(t, int64(3), a.got.GetFence())
	for _, c := range []struct {
		status    int
		permanent bool
	}{{404, true}, {403, false}, {500, false}, {503, false}} {
		status = c.status
		_, err := linked(a).Download(t.Context(), key(), executor.ObjectRef{})
		require.Equal(t, c.permanent, errors.Is(err, executor.ErrPermanent), "%d", c.status)
	}
	store.Close()
	_, err = linked(a).Download(t.Context(), key(), executor.ObjectRef{})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "s3cret", "the error must not contain the signature")
}

func TestLink_permanentFaults(t *testing.T) {
	t.Parallel()
	for kind, want := range map[fault.Kind]bool{
		fault.Conflict: true, fault.Absent: true, fault.Forbidden: true, fault.Invalid: true, fault.Refused: true,
		fault.Unavailable: false, fault.Internal: false, fault.Limited: false, fault.Dependency: false,
	} {
		l := linked(&agents{err: fault.New(kind, "code", "words")})
		_, err := l.MintIngestToken(t.Context(), key())
		require.Error(t, err)
		require.Equal(t, want, errors.Is(err, executor.ErrPermanent), kind)
		_, err = l.Download(t.Context(), key(), executor.ObjectRef{})
		require.Equal(t, want, errors.Is(err, executor.ErrPermanent), kind)
	}
}

func TestLink_MintIngestToken(t *testing.T) {
	t.Parallel()
	token, err := linked(&agents{}).MintIngestToken(t.Context(), key())
	require.NoError(t, err)
	require.Equal(t, "tok", token.Secret.Reveal())
	require.Equal(t, int64(9), token.ExpiresAt.Unix())
}

func TestLink_GrantLease(t *testing.T) {
	t.Parallel()
	lease, err := linked(&agents{}).GrantLease(t.Context(), key())
	require.NoError(t, err)
	require.Equal(t, "w2 3", lease.Reveal())
	_, err = linked(&agents{err: fault.New(fault.Conflict, "code", "words")}).GrantLease(t.Context(), key())
	require.ErrorIs(t, err, executor.ErrPermanent)
}

func TestLink_notConnected(t *testing.T) {
	t.Parallel()
	l := New(Deps{})
	_, err := l.MintIngestToken(t.Context(), key())
	require.ErrorIs(t, err, errNoLine)
	_, err = l.GrantLease(t.Context(), key())
	require.ErrorIs(t, err, errNoLine)
	_, err = l.Download(t.Context(), key(), executor.ObjectRef{})
	require.ErrorIs(t, err, errNoLine)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.Flush(ctx), context.Canceled)
}

func TestFromWork_allFields(t *testing.T) {
	t.Parallel()
	ref := &jobsv1.ObjectRef{Path: "p", Uri: "u", SizeBytes: 1, Sha256: "s", Unpack: true}
	want := executor.ObjectRef{Path: "p", URI: "u", SizeBytes: 1, SHA256: "s", Unpack: true}
	env := &jobsv1.EnvironmentSpec{Requirements: "r", Digest: "d", Sdk: true, Lock: "l", Python: "p", Project: "o"}
	wantEnv := executor.EnvironmentSpec{Requirements: "r", Digest: "d", SDK: true, Lock: "l", Python: "p", Project: "o"}
	limits := &jobsv1.ResourceLimits{Cpus: 1, MemoryBytes: 2, Pids: 3, Gpus: 4}
	got, err := fromWork(&jobsv1.Work{
		WorkId: "w", Kind: jobsv1.WorkKind_WORK_KIND_ATTEMPT, Generation: 2, Fence: 3, Desired: jobsv1.Desired_DESIRED_RUNNING,
		Spec: &jobsv1.Work_Attempt{Attempt: &jobsv1.AttemptSpec{
			JobId: "j", RunId: "r", Attempt: 4, Recipe: "a/b", RecipeVersion: "1", RecipeDigest: "rd", Package: ref, Environment: env,
			Command: []string{"c"}, Hparams: []byte("{}"), Datasets: []*jobsv1.DatasetInput{{Name: "n", Ref: "dr", Digest: "dd", Files: []*jobsv1.ObjectRef{ref}}},
			Model: &jobsv1.ModelInput{Ref: "mr", Digest: "md", Files: []*jobsv1.ObjectRef{ref}}, Env: map[string]string{"A": "b"}, Seed: 5,
			IngestEndpoint: "e", Limits: limits, GraceS: 6, Batch: &jobsv1.BatchSpec{
				Parts: []*jobsv1.BatchPart{{
					Role: "trainer", Nodes: 2, GpusPerNode: 3, Cpus: 4, MemoryBytes: 5, Pool: "p",
					Slurm: &jobsv1.SlurmPool{Partition: "gpu", Account: "a", Qos: "q", User: "u", Folder: "/f"},
				}},
				TimeLimitS: 7, Priority: 8, NotIsolated: true,
			},
		}},
	})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(executor.Work{
		Key: key(), Kind: executor.KindAttempt, Desired: executor.DesiredRunning,
		Attempt: &executor.AttemptSpec{
			JobID: "j", RunID: "r", Attempt: 4, Recipe: "a/b", RecipeVersion: "1", RecipeDigest: "rd", Package: &want,
			Environment: wantEnv, Command: []string{"c"}, Hparams: []byte("{}"),
			Datasets: []executor.DatasetInput{{Name: "n", Ref: "dr", Digest: "dd", Files: []executor.ObjectRef{want}}},
			Model:    &executor.ModelInput{Ref: "mr", Digest: "md", Files: []executor.ObjectRef{want}}, Env: map[string]string{"A": "b"}, Seed: 5,
			IngestEndpoint: "e", Limits: executor.Limits{CPUs: 1, MemoryBytes: 2, PIDs: 3, GPUs: 4}, Grace: 6 * time.Second,
			Batch: &executor.BatchSpec{
				Parts: []executor.BatchPart{{
					Role: "trainer", Nodes: 2, GPUsPerNode: 3, CPUs: 4, MemoryBytes: 5, Pool: "p",
					Slurm: executor.SlurmPool{Partition: "gpu", Account: "a", QOS: "q", User: "u", Folder: "/f"},
				}},
				TimeLimit: 7 * time.Second, Priority: 8, NotIsolated: true,
			},
		},
	}, got))
	got, err = fromWork(&jobsv1.Work{
		WorkId: "w", Kind: jobsv1.WorkKind_WORK_KIND_ENGINE, Generation: 2, Fence: 3, Desired: jobsv1.Desired_DESIRED_STOPPED,
		Spec: &jobsv1.Work_Engine{Engine: &jobsv1.EngineSpec{
			DeploymentId: "d", RevisionId: "r", RevisionNumber: 1, Driver: "llamacpp", Model: []*jobsv1.ObjectRef{ref}, ModelDigest: "m",
			ServedNames: []string{"default"}, Command: []string{"c"}, Environment: env, Args: []string{"a"}, Task: "chat", Limits: limits, ProbeDeadlineS: 7,
		}},
	})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(executor.Work{
		Key: key(), Kind: executor.KindEngine, Desired: executor.DesiredStopped,
		Engine: &executor.EngineSpec{
			DeploymentID: "d", RevisionID: "r", RevisionNumber: 1, Driver: "llamacpp", Model: []executor.ObjectRef{want}, ModelDigest: "m",
			ServedNames: []string{"default"}, Command: []string{"c"}, Environment: wantEnv,
			Args: []string{"a"}, Task: "chat", Limits: executor.Limits{CPUs: 1, MemoryBytes: 2, PIDs: 3, GPUs: 4}, ProbeDeadline: 7 * time.Second,
		},
	}, got))
}

func TestToObservation_allFields(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0).UTC()
	p := toObservation(executor.Observation{
		Key: key(), Phase: executor.PhaseExited, Detail: "d", PreparingAt: now, RunningAt: now, ExitedAt: now, Uncollected: true,
		Exit: &executor.Exit{Code: -1, Signal: 9, Reason: executor.ReasonOOM, Message: "m"},
		Engine: &executor.EngineReport{
			Address: "a", APIKey: secret.New("k"), PID: 1, Ready: true, Phase: executor.EngineReady, Code: "c", Message: "m",
			Probes: json.RawMessage("{}"), ReadyAt: now, Restarts: 2, LogExcerpt: "l",
		},
		Batch: &executor.BatchReport{ID: "7", Reason: "Priority", Detail: "d", Nodes: []string{"n1"}},
	})
	require.Equal(t, "oom_host", p.GetExit().GetReason())
	require.Equal(t, int32(9), p.GetExit().GetSignal())
	require.Equal(t, "k", p.GetEngine().GetApiKey())
	require.Equal(t, now, p.GetEngine().GetReadyAt().AsTime())
	// The test sets every field of the messages. A field added later makes the test fail until the conversion
	// sets that field.
	for _, m := range []proto.Message{p, p.GetExit(), p.GetEngine(), p.GetBatch()} {
		fields := m.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			require.True(t, m.ProtoReflect().Has(fields.Get(i)), fields.Get(i).FullName())
		}
	}
	require.Nil(t, toObservation(executor.Observation{}).GetRunningAt())
	for phase, want := range map[executor.Phase]jobsv1.Phase{
		executor.PhasePending: 1, executor.PhasePreparing: 2, executor.PhaseRunning: 3, executor.PhaseCollecting: 4,
		executor.PhaseExited: 5, executor.PhaseGone: 6, "": 0,
	} {
		require.Equal(t, want, toPhase(phase))
	}
}

// joiner is a fake Joiner. Each call returns the next error in errs. After the last error, calls return a node.
type joiner struct {
	errs  []error
	calls int
}

func (j *joiner) Join(_ context.Context, r *jobsv1.JoinFleetRequest) (*jobsv1.JoinFleetResponse, error) {
	j.calls++
	if len(j.errs) > 0 {
		err := j.errs[0]
		j.errs = j.errs[1:]
		return nil, err
	}
	return &jobsv1.JoinFleetResponse{NodeId: "nod_1", Certificate: r.GetCertificateRequest(), AgentAddress: "h:1", HeartbeatS: 3}, nil
}

func membership(t *testing.T, j Joiner) Membership {
	t.Helper()
	return Membership{
		Dir: filepath.Join(t.TempDir(), "node"), Joiner: j, Hostname: "h", Clock: clock.Real(), Log: slog.New(slog.DiscardHandler),
		Token:   func(context.Context) (secret.String, error) { return secret.New("t"), nil },
		Backoff: clock.Backoff{Base: time.Millisecond, Max: time.Millisecond, Jitter: func() float64 { return 0 }},
	}
}

func TestMembership_LoadOrJoin_retriesThenRemembers(t *testing.T) {
	t.Parallel()
	j := &joiner{errs: []error{errors.New("no route"), errors.New("503")}}
	m := membership(t, j)
	n, err := m.LoadOrJoin(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, j.calls)
	require.Equal(t, "nod_1", n.ID)
	require.Equal(t, 3*time.Second, n.Heartbeat)
	again, err := m.LoadOrJoin(t.Context())
	require.NoError(t, err)
	require.Equal(t, n, again)
	require.Equal(t, 3, j.calls)
	entries, err := os.ReadDir(m.Dir)
	require.NoError(t, err)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), e.Name())
	}
}

func TestMembership_LoadOrJoin_refusedIsNotRetried(t *testing.T) {
	t.Parallel()
	j := &joiner{errs: []error{ErrRefused, nil}}
	_, err := membership(t, j).LoadOrJoin(t.Context())
	require.ErrorIs(t, err, ErrRefused)
	require.Equal(t, 1, j.calls)
}

func TestOverHTTP_Join(t *testing.T) {
	t.Parallel()
	status, answer := 201, `{"node_id":"nod_1","certificate":"c","ca_certificate":"ca","agent_address":"h:1","heartbeat_s":5,"later":true}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	j := OverHTTP{Server: server.URL + "/", Client: &http.Client{}}
	got, err := j.Join(t.Context(), &jobsv1.JoinFleetRequest{Token: "t"})
	require.NoError(t, err)
	require.Equal(t, "ca", got.GetCaCertificate())
	require.Equal(t, int32(5), got.GetHeartbeatS())
	for _, c := range []struct {
		status  int
		refused bool
	}{{401, true}, {403, true}, {409, true}, {422, true}, {429, false}, {500, false}, {503, false}} {
		status = c.status
		_, err := j.Join(t.Context(), &jobsv1.JoinFleetRequest{})
		require.Equal(t, c.refused, errors.Is(err, ErrRefused), "%d", c.status)
	}
	status, answer = 200, "<html>"
	_, err = j.Join(t.Context(), &jobsv1.JoinFleetRequest{})
	require.ErrorContains(t, err, "no node_id")
}

func TestMembership_Join_noAgentAddress(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"empty": "", "no port": "signalbox.example"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprintf(w, `{"node_id":"nod_1","certificate":"c","ca_certificate":"ca","agent_address":%q,"heartbeat_s":5}`, address)
			}))
			defer server.Close()
			m := membership(t, OverHTTP{Server: server.URL, Client: &http.Client{}})
			for _, join := range []func(context.Context) (Node, error){m.Join, m.LoadOrJoin} {
				_, err := join(t.Context())
				require.ErrorIs(t, err, ErrRefused, "the join must not be retried")
				require.ErrorContains(t, err, fmt.Sprintf("no valid agent address (agent_address is %q)", address))
				require.ErrorContains(t, err, "SERVICE_JOBS_AGENT_LISTEN")
				require.NoDirExists(t, m.Dir, "no node may be stored")
			}
		})
	}
}

func TestDialTLS_noAgentAddress(t *testing.T) {
	t.Parallel()
	_, err := DialTLS(clock.Real())(Node{ID: "nod_1", dir: "/data/node"})
	require.ErrorContains(t, err, "node nod_1 has no agent listener address; remove /data/node and join again")
}
