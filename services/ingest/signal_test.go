package ingest_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// control holds the signals that the fake jobs service sends, and records the calls that it receives.
type control struct {
	signals map[string]*jobspeerv1.Signal // by run id
	watches []chan struct{}
	acked   []string
	saved   []*jobspeerv1.RecordCheckpointRequest
	refuses error // the error that RecordCheckpoint returns, if any
	cut     bool  // true if WatchSignals must fail
}

func (j *jobs) NextSignal(_ context.Context, in *jobspeerv1.NextSignalRequest, _ ...grpc.CallOption) (*jobspeerv1.Signal, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s := j.control.signals[in.GetRunId()]; s != nil {
		return s, nil
	}
	return &jobspeerv1.Signal{Signal: "none"}, nil
}

func (j *jobs) AckSignal(_ context.Context, in *jobspeerv1.AckSignalRequest, _ ...grpc.CallOption) (*jobspeerv1.Signal, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.control.signals[in.GetRunId()]
	if now == nil || now.GetId() != in.GetSignalId() {
		return nil, fault.New(fault.Conflict, "signal", "signal: %s is not the run's current signal", in.GetSignalId())
	}
	j.control.acked = append(j.control.acked, in.GetSignalId())
	return &jobspeerv1.Signal{Signal: "pause", Id: "sig_1.saved"}, nil
}

func (j *jobs) RecordCheckpoint(_ context.Context, in *jobspeerv1.RecordCheckpointRequest, _ ...grpc.CallOption) (*jobspeerv1.RecordCheckpointResponse, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.control.refuses != nil {
		return nil, j.control.refuses
	}
	j.control.saved = append(j.control.saved, in)
	return &jobspeerv1.RecordCheckpointResponse{}, nil
}

// signalStream is the stream that WatchSignals returns.
type signalStream struct {
	grpc.ClientStream
	ctx     context.Context
	jobs    *jobs
	changed chan struct{}
	first   bool
}

func (j *jobs) WatchSignals(
	ctx context.Context, _ *jobspeerv1.WatchSignalsRequest, _ ...grpc.CallOption,
) (grpc.ServerStreamingClient[jobspeerv1.WatchSignalsResponse], error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.control.cut {
		return nil, fault.New(fault.Unavailable, "", "jobs is unavailable")
	}
	s := &signalStream{ctx: ctx, jobs: j, changed: make(chan struct{}, 1), first: true}
	j.control.watches = append(j.control.watches, s.changed)
	return s, nil
}

func (s *signalStream) Recv() (*jobspeerv1.WatchSignalsResponse, error) {
	if !s.first {
		select {
		case <-s.ctx.Done():
			return nil, s.ctx.Err()
		case <-s.changed:
		}
	}
	s.first = false
	s.jobs.mu.Lock()
	defer s.jobs.mu.Unlock()
	m := &jobspeerv1.WatchSignalsResponse{Signals: map[string]string{}}
	for run, signal := range s.jobs.control.signals {
		m.Signals[run] = signal.GetId()
	}
	return m, nil
}

// setSignal sets the current signal of a run; nil clears it.
func (j *jobs) setSignal(run string, s *jobspeerv1.Signal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.control.signals == nil {
		j.control.signals = map[string]*jobspeerv1.Signal{}
	}
	if j.control.signals[run] = s; s == nil {
		delete(j.control.signals, run)
	}
	for _, changed := range j.control.watches {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

func save(id string) *jobspeerv1.Signal {
	return &jobspeerv1.Signal{Signal: "checkpoint", Id: id, Deadline: timestamppb.New(time.Date(2026, 11, 21, 3, 0, 0, 123456000, time.UTC))}
}

func (t *training) signals(query string) response {
	return t.call(http.MethodGet, "signals?run_id="+t.run+query, "", "")
}

func TestSignals_deliverAndAcknowledge(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	one := r.train()
	require.JSONEq(t, `{"signal": "none", "id": null, "deadline": null}`, string(one.signals("").body))
	h.jobs.setSignal(one.run, save("sig_1"))
	const want = `{"signal": "checkpoint", "id": "sig_1", "deadline": "2026-11-21T03:00:00.123456+00:00"}`
	require.JSONEq(t, want, string(one.signals("").body))
	require.JSONEq(t, want, string(one.signals("&wait=60").body), "a pending signal is returned at once")
	a := one.call(http.MethodPost, "signals/ack", "", one.body(`"id":"sig_9"`))
	require.Equal(t, http.StatusConflict, a.status, string(a.body))
	require.JSONEq(t, `{"ok": true, "signal": "pause", "id": "sig_1.saved", "deadline": null}`,
		string(one.call(http.MethodPost, "signals/ack", "", one.body(`"id":"sig_1"`)).body))
	require.Equal(t, []string{"sig_1"}, h.jobs.control.acked)
}

// A waiting request returns when its own run gets a signal, but not when another run gets a signal.
func TestSignals_waitEndsWithNewSignal(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	one, other := r.train(), r.train()
	responses := make(chan response, 3)
	wait := func(of *training, query string) {
		go func() { responses <- of.signals("&wait=60" + query) }()
	}
	wait(one, "")
	h.jobs.setSignal(other.run, save("sig_2"))
	h.jobs.setSignal(one.run, save("sig_1"))
	require.Equal(t, "sig_1", (<-responses).json(t)["id"])
	wait(one, "&after=sig_1")
	h.jobs.setSignal(one.run, &jobspeerv1.Signal{Signal: "stop", Id: "stop.1"})
	require.Equal(t, "stop", (<-responses).json(t)["signal"])
	require.Equal(t, "stop", one.signals("&after=stop.1").json(t)["signal"], "a request without wait returns the current signal even if it is known")
}

// EndWaits works even while the signal stream from the jobs service is down.
func TestEndWaits_endsEveryWait(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.jobs.control.cut = true
	r := h.replica(ingest.Config{})
	one := r.train()
	responses := make(chan response, 1)
	go func() { responses <- one.signals("&wait=60") }()
	r.service.EndWaits()
	require.Equal(t, "none", (<-responses).json(t)["signal"])
	require.Equal(t, "none", one.signals("&wait=60").json(t)["signal"], "later requests do not wait either")
}

func TestSignals_rejections(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	one, other := r.train(), r.train()
	for name, c := range map[string]struct {
		query  string
		status int
		loc    string
	}{
		"missing run_id":     {"signals", http.StatusUnprocessableEntity, `"loc":["query","run_id"]`},
		"run of another job": {"signals?run_id=" + other.run, http.StatusForbidden, "the token is for another run"},
		"wait too long":      {"signals?run_id=" + one.run + "&wait=61", http.StatusUnprocessableEntity, `"loc":["query","wait"]`},
		"negative wait":      {"signals?run_id=" + one.run + "&wait=-1", http.StatusUnprocessableEntity, `"loc":["query","wait"]`},
		"fractional wait":    {"signals?run_id=" + one.run + "&wait=1.5", http.StatusUnprocessableEntity, `"loc":["query","wait"]`},
		"duplicate wait":     {"signals?run_id=" + one.run + "&wait=1&wait=2", http.StatusUnprocessableEntity, `"loc":["query","wait"]`},
		"unknown parameter":  {"signals?run_id=" + one.run + "&till=1", http.StatusUnprocessableEntity, `"loc":["query","till"]`},
		"wrong method":       {"signals/ack", http.StatusMethodNotAllowed, "Method Not Allowed"},
	} {
		a := one.call(http.MethodGet, c.query, "", "")
		require.Equal(t, c.status, a.status, "%s: %s", name, a.body)
		require.Contains(t, string(a.body), c.loc, name)
	}
	for body, loc := range map[string]string{
		`{"run_id":"` + one.run + `"}`:                       `"loc":["body","id"]`,
		`{"run_id":"` + one.run + `","id":""}`:               `"loc":["body","id"]`,
		`{"run_id":"` + one.run + `","id":"sig_1","more":1}`: `"loc":["body","more"]`,
		`{"id":"sig_1"}`:                                     `"loc":["body","run_id"]`,
	} {
		a := one.call(http.MethodPost, "signals/ack", "", body)
		require.Equal(t, http.StatusUnprocessableEntity, a.status, "%s: %s", body, a.body)
		require.Contains(t, string(a.body), loc)
	}
	a := one.call(http.MethodPost, "signals/ack", "", `{"run_id":"`+other.run+`","id":"sig_1"}`)
	require.Equal(t, http.StatusForbidden, a.status)
	third := r.train()
	former := *third
	third.attempt(2)
	a = former.signals("")
	require.Equal(t, http.StatusConflict, a.status, "a replaced attempt gets no signals: %s", a.body)
}

// Ingest reports a checkpoint to the jobs service before the registration returns. A repeated registration reports the
// checkpoint again.
func TestRegisterArtifact_recordsCheckpointWithJobs(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	one := r.train()
	uri := one.upload("checkpoint", "state.npz", []byte("the state"))
	body := one.body(`"kind":"checkpoint","path":"` + uri + `","format":"npz","step":7`)
	h.jobs.mu.Lock()
	h.jobs.control.refuses = fault.New(fault.Unavailable, "", "jobs is unavailable")
	h.jobs.mu.Unlock()
	a := one.call(http.MethodPost, "artifact", "w:1", body)
	require.Equal(t, http.StatusServiceUnavailable, a.status, string(a.body))
	h.jobs.mu.Lock()
	h.jobs.control.refuses = nil
	h.jobs.mu.Unlock()
	for range 2 {
		a = one.call(http.MethodPost, "artifact", "w:1", body)
		require.Equal(t, http.StatusOK, a.status, string(a.body))
	}
	require.Len(t, h.jobs.control.saved, 2)
	got := h.jobs.control.saved[0]
	require.Equal(t, a.json(t)["id"], got.GetArtifactId())
	require.Equal(t, []any{one.run, int32(1), "npz", uri, int64(9), int64(7), false},
		[]any{got.GetRunId(), got.GetAttempt(), got.GetFormat(), got.GetUri(), got.GetSizeBytes(), got.GetStep(), got.GetPacked()})
	require.Len(t, got.GetSha256(), 64)
	one.post("artifact", "", `"kind":"checkpoint","path":"out/state.npz","format":"npz"`)
	export := one.upload("hf_export", "model.tar", []byte("weights"))
	one.post("artifact", "", `"kind":"hf_export","path":"`+export+`","format":"safetensors"`)
	require.Len(t, h.jobs.control.saved, 2, "only uploaded checkpoints are recorded; training cannot resume from anything else")
}
