package demo

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// newSignedInDemo creates a demo that is signed in to w.
func newSignedInDemo(w *fakeServer) *demo {
	clk := clock.Real()
	return &demo{
		Options: Options{Out: &bytes.Buffer{}, Clock: clk, Data: "data"}, began: clk.Now(),
		loop: &e2eflow.Loop{Client: client.New(w.URL, nil).With(secret.New("access")), Clock: clk, Name: "walk", Timeout: 5 * time.Second},
	}
}

func (d *demo) printed() string { return d.Out.(*bytes.Buffer).String() }

func TestDemo_walk(t *testing.T) {
	t.Parallel()
	w := newFakeServer(t)
	d := newSignedInDemo(w)
	require.NoError(t, d.walk(t.Context()))
	out := d.printed()
	for _, text := range []string{
		"4000 pairs", "job_1 of demo/chat-tiny admitted", "first one: train/loss = 2.500", "exact match on held-out pairs 0.97",
		"1 log lines followed", "exact match 0.01 at first, 0.97 at last; 2 of 3 held-out pairs right", "held out of training",
		`the same in 2 events`, `recorded under the token "demo", revision 1`, `untrained weights in the same engine answer "0"`,
		"first metric", "(target 30.0 s)", "first chat", "(target 120.0 s)",
	} {
		require.Contains(t, out, text)
	}
	question := regexp.MustCompile(`question (\S+)  answer (\S+)  \(held out of training; correct: (\S+)\)`).FindStringSubmatch(out)
	require.NotNil(t, question, out)
	require.Equal(t, correctSum(question[1]), question[2])
	require.Equal(t, question[2], question[3])
	require.Equal(t, []int{1, 2, 1}, w.history, "the trained revision must be promoted at the end")
	require.Equal(t, []int{2}, w.stopped, "the untrained revision must be stopped")
	require.Positive(t, d.firstMetric)
	require.Greater(t, d.firstChat, d.firstMetric)
	require.Equal(t, 4000, bytes.Count(w.dataset, []byte("\n")))
}

func TestDemo_judge_drawsFromRightSamples(t *testing.T) {
	t.Parallel()
	w := newFakeServer(t)
	drawn := map[string]bool{}
	for range 200 {
		d := newSignedInDemo(w)
		d.loop.Job = e2eflow.Job{RunID: "run_1"}
		q, err := d.judge(t.Context())
		require.NoError(t, err)
		require.Equal(t, q.Expected, q.Answer)
		drawn[q.Question] = true
	}
	require.Equal(t, map[string]bool{"27+46?": true, "50+07?": true}, drawn, "every question with a right response must be drawn at some time, and no other question")
}

func TestDemo_judge_rewardDoesNotMakeSampleRight(t *testing.T) {
	t.Parallel()
	w := newFakeServer(t)
	lie := sample("11+12?", "99")
	lie["reward"] = 1
	w.samples = []map[string]any{lie}
	d := newSignedInDemo(w)
	d.loop.Job = e2eflow.Job{RunID: "run_1"}
	_, err := d.judge(t.Context())
	require.ErrorContains(t, err, "the model solved none of 1 held-out pairs")
}

func TestDemo_judge_lastRoundBelowBar(t *testing.T) {
	t.Parallel()
	round := func(reward string, complete bool) string {
		state := "false"
		if complete {
			state = "true"
		}
		return `[{"step":0,"avg_reward":0.99,"complete":true},{"step":900,"avg_reward":` + reward + `,"complete":` + state + `}]`
	}
	for name, tc := range map[string]struct {
		rounds, want string
	}{
		"at the bar":   {round("0.9", true), ""},
		"below":        {round("0.899", true), "(step 900) is incomplete or its average reward (0.90) is below 0.9"},
		"zero":         {round("0", true), "(0.00) is below 0.9"},
		"not reported": {round("null", true), "not reported"},
		"incomplete":   {round("0.99", false), "(step 900)"},
		"no round":     {`[]`, "no validation round"},
	} {
		w := newFakeServer(t)
		w.rounds = tc.rounds
		d := newSignedInDemo(w)
		d.loop.Job = e2eflow.Job{RunID: "run_1"}
		_, err := d.judge(t.Context())
		if tc.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, tc.want, name)
	}
}

func TestDemo_walk_errors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(w *fakeServer)
		want   string
	}{
		"failed job":               {func(w *fakeServer) { w.job = `"state":"failed","end_reason":"env_build","message":"no numpy"` }, "the job failed: env_build: no numpy"},
		"wrong response":           {func(w *fakeServer) { w.trained = wrongSum }, `the trained model returned "0"`},
		"empty response":           {func(w *fakeServer) { w.trained = func(string) string { return "" } }, `the trained model returned ""`},
		"wrong streamed response":  {func(w *fakeServer) { w.streamed = wrongSum }, `the trained model streamed "0"`},
		"untrained model is right": {func(w *fakeServer) { w.untrained = correctSum }, "too, so the comparison proves nothing"},
		"promoted before ready":    {func(w *fakeServer) { w.early = 200 }, "want 409"},
		"all samples wrong":        {func(w *fakeServer) { w.samples = w.samples[1:2] }, "none of 1 held-out pairs"},
		"poor last round":          {func(w *fakeServer) { w.rounds = `[{"step":900,"avg_reward":0.5,"complete":true}]` }, "below 0.9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFakeServer(t)
			tc.change(w)
			require.ErrorContains(t, newSignedInDemo(w).walk(t.Context()), tc.want)
		})
	}
}

func TestRun_onceStopsServer(t *testing.T) {
	t.Parallel()
	w := newFakeServer(t)
	o := options(t, "serves", w.URL)
	require.NoError(t, Run(t.Context(), o))
	kept, err := os.ReadFile(filepath.Join(o.Data, "demo-password"))
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(kept)), w.password, "the demo must sign in with the password of the server")
	log, err := os.ReadFile(filepath.Join(o.Data, "signalboxd.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), filepath.Join(o.Data, "demo-password"))
	require.Contains(t, string(log), "ended in order")
	require.NotContains(t, o.Out.(*bytes.Buffer).String(), "Stop:", "the output must not state how to stop a server that has ended")
}

func TestRun_failedWalkShowsLogAndStopsServer(t *testing.T) {
	t.Parallel()
	w := newFakeServer(t)
	w.trained = wrongSum
	o := options(t, "serves", w.URL)
	err := Run(t.Context(), o)
	require.ErrorContains(t, err, "the trained model returned")
	require.ErrorContains(t, err, "mode serves", "the error must contain the end of the log")
	log, err := os.ReadFile(filepath.Join(o.Data, "signalboxd.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "ended in order")
}

func TestRun_servesUntilContextEnds(t *testing.T) {
	t.Parallel()
	w := newFakeServer(t)
	o := options(t, "serves", w.URL)
	o.Once = false
	out := &lines{found: make(chan struct{}), until: "Stop:"}
	o.Out = out
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o) }()
	select {
	case <-out.found:
	case err := <-done:
		require.NoError(t, err)
		require.Fail(t, "the demo ended by itself")
	}
	cancel()
	require.NoError(t, <-done)
	kept, err := os.ReadFile(filepath.Join(o.Data, "demo-password"))
	require.NoError(t, err)
	for _, text := range []string{
		"Console   " + w.URL + "/login?next=/jobs/job_1#link=lnk_demo  (signed in by this link, once, within 10 minutes)", w.URL + "/api", "admin / " + strings.TrimSpace(string(kept)), "saved in " + o.Data, "/inference/dep_1/v1/chat/completions", "Bearer dtk_demo", o.Data,
	} {
		require.Contains(t, out.buf.String(), text)
	}
}

func TestDemo_signInLink_noneCreated(t *testing.T) {
	t.Parallel()
	d := newSignedInDemo(newFakeServer(t))
	d.loop.Job = e2eflow.Job{ID: "job_1"}
	d.Server = "/bin/false"
	require.Equal(t, d.loop.Client.Base()+"/jobs/job_1", signInLink(t.Context(), d.Options, d.loop.Client.Base(), "/jobs/job_1"), "the address works with a password, too")
}

// lines is a writer that closes the channel found once it has received the text in the field until. Read buf only after
// the last write.
type lines struct {
	buf   bytes.Buffer
	until string
	found chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	n, err := l.buf.Write(p)
	if bytes.Contains(p, []byte(l.until)) {
		close(l.found)
	}
	return n, err
}

func TestFreshNameAndDraw(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 100 {
		name, err := freshName()
		require.NoError(t, err)
		require.Regexp(t, `^chat-tiny-[a-z2-7]{8}$`, name)
		require.False(t, seen[name])
		seen[name] = true
	}
	hit := map[int]bool{}
	for range 500 {
		n, err := draw(5)
		require.NoError(t, err)
		hit[n] = true
	}
	require.Equal(t, map[int]bool{0: true, 1: true, 2: true, 3: true, 4: true}, hit)
}

func TestRun_loginDenied(t *testing.T) {
	t.Parallel()
	w := newFakeServer(t)
	w.denied = true
	err := Run(t.Context(), options(t, "serves", w.URL))
	require.ErrorContains(t, err, "log in: 401")
	require.NotContains(t, err.Error(), w.password, "errors must not contain the password")
}

func TestDemo_walk_brokenStreams(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(w *fakeServer)
		want   string
	}{
		"metrics": {func(w *fakeServer) { w.metrics = "id: 1\ndata: rubbish\n\n" }, "follow the metrics: decode metrics"},
		"logs":    {func(w *fakeServer) { w.logs = "id: 1\ndata: rubbish\n\n" }, "follow the logs: decode a log line"},
	} {
		w := newFakeServer(t)
		tc.change(w)
		require.ErrorContains(t, newSignedInDemo(w).walk(t.Context()), tc.want, name)
	}
}

func TestDemo_walk_failedJobEndsStreams(t *testing.T) {
	t.Parallel()
	w := newFakeServer(t)
	w.job = `"state":"failed","end_reason":"exit","message":"ended with 1"`
	w.held = true
	d := newSignedInDemo(w)
	d.loop.Timeout = time.Minute
	began := time.Now()
	require.ErrorContains(t, d.walk(t.Context()), "ended with 1")
	require.Less(t, time.Since(began), 30*time.Second, "open streams must be canceled")
}

func TestDemo_walk_missingArtifacts(t *testing.T) {
	t.Parallel()
	for missing, kind := range map[string]string{"art_1": "merged_model", "art_0": "checkpoint"} {
		w := newFakeServer(t)
		w.without = missing
		require.ErrorContains(t, newSignedInDemo(w).walk(t.Context()), "the run registered no "+kind+" in format gguf")
	}
}

func TestRun_interruptedWalkStopsServer(t *testing.T) {
	t.Parallel()
	w := newFakeServer(t)
	w.job, w.held = `"state":"running"`, true
	o := options(t, "serves", w.URL)
	out := &lines{found: make(chan struct{}), until: "admitted"}
	o.Out = out
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o) }()
	<-out.found
	cancel()
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	log, readErr := os.ReadFile(filepath.Join(o.Data, "signalboxd.log"))
	require.NoError(t, readErr)
	require.Contains(t, string(log), "ended in order")
}

func TestSecondsAndValues(t *testing.T) {
	t.Parallel()
	require.Equal(t, "1.5 s", seconds(1500*time.Millisecond))
	half := 0.5
	require.Equal(t, "0.50", show(&half))
	require.Equal(t, "not reported", show(nil))
	require.InDelta(t, 0.5, value(&half), 0)
	require.Zero(t, value(nil))
}
