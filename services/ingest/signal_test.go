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

// asking is what jobs asks of runs, by run.
type asking struct {
	signals map[string]*jobspeerv1.Signal
	watches []chan struct{}
	acked   []string
	saved   []*jobspeerv1.RecordCheckpointRequest
	refuses error // a checkpoint
	cut     bool  // no stream comes about
}

func (j *jobs) NextSignal(_ context.Context, in *jobspeerv1.NextSignalRequest, _ ...grpc.CallOption) (*jobspeerv1.Signal, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s := j.asking.signals[in.GetRunId()]; s != nil {
		return s, nil
	}
	return &jobspeerv1.Signal{Signal: "none"}, nil
}

func (j *jobs) AckSignal(_ context.Context, in *jobspeerv1.AckSignalRequest, _ ...grpc.CallOption) (*jobspeerv1.Signal, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.asking.signals[in.GetRunId()]
	if now == nil || now.GetId() != in.GetSignalId() {
		return nil, fault.New(fault.Conflict, "signal", "signal: %s is not what the run is asked now", in.GetSignalId())
	}
	j.asking.acked = append(j.asking.acked, in.GetSignalId())
	return &jobspeerv1.Signal{Signal: "pause", Id: "sig_1.saved"}, nil
}

func (j *jobs) RecordCheckpoint(_ context.Context, in *jobspeerv1.RecordCheckpointRequest, _ ...grpc.CallOption) (*jobspeerv1.RecordCheckpointResponse, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.asking.refuses != nil {
		return nil, j.asking.refuses
	}
	j.asking.saved = append(j.asking.saved, in)
	return &jobspeerv1.RecordCheckpointResponse{}, nil
}

// signalStream is jobs' stream of what runs are asked.
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
	if j.asking.cut {
		return nil, fault.New(fault.Unavailable, "", "jobs is away")
	}
	s := &signalStream{ctx: ctx, jobs: j, changed: make(chan struct{}, 1), first: true}
	j.asking.watches = append(j.asking.watches, s.changed)
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
	for run, asked := range s.jobs.asking.signals {
		m.Signals[run] = asked.GetId()
	}
	return m, nil
}

// ask asks a run for something, or with nil for nothing.
func (j *jobs) ask(run string, s *jobspeerv1.Signal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.asking.signals == nil {
		j.asking.signals = map[string]*jobspeerv1.Signal{}
	}
	if j.asking.signals[run] = s; s == nil {
		delete(j.asking.signals, run)
	}
	for _, changed := range j.asking.watches {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

func save(id string) *jobspeerv1.Signal {
	return &jobspeerv1.Signal{Signal: "checkpoint", Id: id, Deadline: timestamppb.New(time.Date(2026, 11, 21, 3, 0, 0, 123456000, time.UTC))}
}

func (t *training) signals(query string) answer {
	return t.call(http.MethodGet, "signals?run_id="+t.run+query, "", "")
}

func TestATrainingIsToldWhatItIsAsked(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	one := r.train()
	require.JSONEq(t, `{"signal": "none", "id": null, "deadline": null}`, string(one.signals("").body))
	h.jobs.ask(one.run, save("sig_1"))
	const told = `{"signal": "checkpoint", "id": "sig_1", "deadline": "2026-11-21T03:00:00.123456+00:00"}`
	require.JSONEq(t, told, string(one.signals("").body))
	require.JSONEq(t, told, string(one.signals("&wait=60").body), "what is there is answered at once")
	a := one.call(http.MethodPost, "signals/ack", "", one.body(`"id":"sig_9"`))
	require.Equal(t, http.StatusConflict, a.status, string(a.body))
	require.JSONEq(t, `{"ok": true, "signal": "pause", "id": "sig_1.saved", "deadline": null}`,
		string(one.call(http.MethodPost, "signals/ack", "", one.body(`"id":"sig_1"`)).body))
	require.Equal(t, []string{"sig_1"}, h.jobs.asking.acked)
}

// Many wait and each is told of its own as soon as it is asked, and of nothing else.
func TestAWaitEndsWithTheAsking(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	one, other := r.train(), r.train()
	answers := make(chan answer, 3)
	wait := func(of *training, query string) {
		go func() { answers <- of.signals("&wait=60" + query) }()
	}
	wait(one, "")
	h.jobs.ask(other.run, save("sig_2"))
	h.jobs.ask(one.run, save("sig_1"))
	require.Equal(t, "sig_1", (<-answers).json(t)["id"])
	wait(one, "&after=sig_1")
	h.jobs.ask(one.run, &jobspeerv1.Signal{Signal: "stop", Id: "stop.1"})
	require.Equal(t, "stop", (<-answers).json(t)["signal"])
	require.Equal(t, "stop", one.signals("&after=stop.1").json(t)["signal"], "without a wait the truth is told")
}

// Jobs' stream may be away: what is asked is told later, and none of it is lost.
func TestTheEndOfTheServiceEndsEveryWait(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.jobs.asking.cut = true
	r := h.replica(ingest.Config{})
	one := r.train()
	answers := make(chan answer, 1)
	go func() { answers <- one.signals("&wait=60") }()
	r.service.EndWaits()
	require.Equal(t, "none", (<-answers).json(t)["signal"])
	require.Equal(t, "none", one.signals("&wait=60").json(t)["signal"], "also of those that come later")
}

func TestQuestionsForSignalsThatAreRefused(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	one, other := r.train(), r.train()
	for name, c := range map[string]struct {
		query  string
		status int
		loc    string
	}{
		"no run":          {"signals", http.StatusUnprocessableEntity, `"loc":["query","run_id"]`},
		"another's run":   {"signals?run_id=" + other.run, http.StatusForbidden, "the token is for another run"},
		"too long a wait": {"signals?run_id=" + one.run + "&wait=61", http.StatusUnprocessableEntity, `"loc":["query","wait"]`},
		"less than none":  {"signals?run_id=" + one.run + "&wait=-1", http.StatusUnprocessableEntity, `"loc":["query","wait"]`},
		"no whole number": {"signals?run_id=" + one.run + "&wait=1.5", http.StatusUnprocessableEntity, `"loc":["query","wait"]`},
		"twice":           {"signals?run_id=" + one.run + "&wait=1&wait=2", http.StatusUnprocessableEntity, `"loc":["query","wait"]`},
		"an unknown name": {"signals?run_id=" + one.run + "&till=1", http.StatusUnprocessableEntity, `"loc":["query","till"]`},
		"a wrong method":  {"signals/ack", http.StatusMethodNotAllowed, "Method Not Allowed"},
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
	require.Equal(t, http.StatusConflict, a.status, "an attempt that was replaced is asked for nothing: %s", a.body)
}

// Jobs knows of a checkpoint before its registration is answered: who registers again tells again.
func TestJobsIsToldOfEachCheckpoint(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	one := r.train()
	uri := one.upload("checkpoint", "state.npz", []byte("the state"))
	body := one.body(`"kind":"checkpoint","path":"` + uri + `","format":"npz","step":7`)
	h.jobs.mu.Lock()
	h.jobs.asking.refuses = fault.New(fault.Unavailable, "", "jobs is away")
	h.jobs.mu.Unlock()
	a := one.call(http.MethodPost, "artifact", "w:1", body)
	require.Equal(t, http.StatusServiceUnavailable, a.status, string(a.body))
	h.jobs.mu.Lock()
	h.jobs.asking.refuses = nil
	h.jobs.mu.Unlock()
	for range 2 {
		a = one.call(http.MethodPost, "artifact", "w:1", body)
		require.Equal(t, http.StatusOK, a.status, string(a.body))
	}
	require.Len(t, h.jobs.asking.saved, 2)
	got := h.jobs.asking.saved[0]
	require.Equal(t, a.json(t)["id"], got.GetArtifactId())
	require.Equal(t, []any{one.run, int32(1), "npz", uri, int64(9), int64(7), false},
		[]any{got.GetRunId(), got.GetAttempt(), got.GetFormat(), got.GetUri(), got.GetSizeBytes(), got.GetStep(), got.GetPacked()})
	require.Len(t, got.GetSha256(), 64)
	one.post("artifact", "", `"kind":"checkpoint","path":"out/state.npz","format":"npz"`)
	export := one.upload("hf_export", "model.tar", []byte("weights"))
	one.post("artifact", "", `"kind":"hf_export","path":"`+export+`","format":"safetensors"`)
	require.Len(t, h.jobs.asking.saved, 2, "what the platform does not have, and what is no checkpoint, is not gone on from")
}
