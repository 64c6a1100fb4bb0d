package soak_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// TestSoak requires that an installation under an even load stops growing when its oldest rows reach their age. `make
// soak SOAK=60m` runs an accelerated hour; the test in CI is shorter, and compares only the order of magnitude.
func TestSoak(t *testing.T) {
	h := newHarness(t)
	ctx, end := context.WithTimeout(t.Context(), h.length)
	defer end()
	rounds := map[string]func(context.Context, int) error{
		"jobs": h.trainer(), "uploads": h.uploader(), "deployments": h.deployer(), "sign-ins": h.user,
		"engines": h.server(), "sessions": h.visitor(),
	}
	var load sync.WaitGroup
	for name, round := range rounds {
		load.Go(func() { h.repeat(ctx, name, round) })
	}
	half := time.NewTimer(h.length / 2)
	defer half.Stop()
	<-half.C
	middle := h.measure()
	t.Logf("after %v: %v", h.length/2, middle)
	<-ctx.Done()
	last := h.measure()
	t.Logf("after %v: %v", h.length, last)
	load.Wait()
	h.show(middle, last)
	t.Logf("rounds: %v, ages from %v to %v", h.rounds, shortest, h.length/6)

	require.NoError(t, errors.Join(h.errs...), h.s.Tail())
	for name := range rounds {
		require.Positive(t, h.rounds[name], name)
	}
	// Rows are deleted in passes. The pause between two passes is one second or a twentieth of the shortest age, and
	// a pass itself takes some time.
	require.Eventually(t, func() bool { return len(h.late(15*time.Second)) == 0 }, time.Minute, time.Second, "rows past their age: %v", h.late(15*time.Second))
	h.compare(middle, last)
	h.requireDeleted("day of calls", "playground turn", "playground session", "ended engine", "deleted deployment", "deleted model", "ended job", "run data")
}

// requireDeleted requires that rows of each kind have been deleted during the test because of their age.
func (h *harness) requireDeleted(kinds ...string) {
	h.t.Helper()
	log := h.s.Processes["signalboxd"].Log()
	for _, kind := range kinds {
		require.Contains(h.t, log, `"kind":"`+kind+`"`)
	}
}

// training reports metrics and lines, and uploads a checkpoint of 64 KiB.
const training = `
import os, signalbox
with signalbox.init() as run:
    run.starting()
    run.running()
    run.hparams({"lr": 0.1})
    for step in range(50):
        run.log({"loss": 1.0 / (step + 1)}, step=step)
        print("step", step, flush=True)
    with open("model.bin", "wb") as f:
        f.write(os.urandom(65536))
    run.artifact("model.bin", kind="checkpoint", format="bin", step=50)
`

// trainer returns a round that runs one job.
func (h *harness) trainer() func(ctx context.Context, n int) error {
	l := h.s.Loop(h.t.Context())
	spec := testenv.Command(h.t.Context(), h.s, l, "python", "-c", training)
	return func(ctx context.Context, _ int) error {
		job := &e2eflow.Loop{Client: l.Client, Clock: l.Clock, Name: l.Name, Timeout: l.Timeout}
		if err := job.Submit(ctx, spec); err != nil {
			return err
		}
		return job.AwaitEnd(ctx)
	}
}

// target is a signed upload.
type target struct {
	URL, Method string
	Headers     map[string]string
}

// urlLife is how long upload URLs are valid. The age of an upload to a dataset counts from the time at which its URL
// expires, so a test of such uploads must be several times as long.
const urlLife = 15 * time.Minute

// uploader returns a round that uploads two packages: one is refused, the other is never committed. In a long test it
// also uploads a version of a dataset that is never committed.
func (h *harness) uploader() func(ctx context.Context, n int) error {
	l := h.s.Loop(h.t.Context())
	var set struct{ ID string }
	require.NoError(h.t, l.Client.Post(h.t.Context(), "/api/datasets", map[string]any{"name": l.Name, "format": "jsonl"}, &set))
	return func(ctx context.Context, n int) error {
		refused, err := upload(ctx, l)
		if err == nil {
			err = h.expect(ctx, l, http.StatusBadRequest, http.MethodPost, "/api/submit/packages/"+refused+"/commit", nil)
		}
		if err == nil {
			_, err = upload(ctx, l)
		}
		if err == nil && h.length >= 3*urlLife {
			err = uploadVersion(ctx, l, set.ID, "v"+strconv.Itoa(n))
		}
		return err
	}
}

// content returns random bytes, which are not a valid package, and their digest.
func content() (data []byte, digest string) {
	data = make([]byte, 100<<10)
	_, _ = rand.Read(data)
	sum := sha256.Sum256(data)
	return data, hex.EncodeToString(sum[:])
}

// upload uploads a package and returns its id.
func upload(ctx context.Context, l *e2eflow.Loop) (string, error) {
	data, digest := content()
	var pack struct {
		ID     string
		Upload target
	}
	if err := l.Client.Post(ctx, "/api/submit/packages", map[string]any{"size_bytes": len(data), "sha256": digest}, &pack); err != nil {
		return "", err
	}
	return pack.ID, l.Client.Upload(ctx, pack.Upload.Method, pack.Upload.URL, pack.Upload.Headers, data)
}

// uploadVersion uploads the file of a version of a dataset.
func uploadVersion(ctx context.Context, l *e2eflow.Loop, dataset, name string) error {
	data, digest := content()
	var version struct{ Uploads []target }
	err := l.Client.Post(ctx, "/api/datasets/"+dataset+"/versions", map[string]any{
		"version": name, "files": []any{map[string]any{"path": "a.jsonl", "size_bytes": len(data), "sha256": digest}},
	}, &version)
	for _, u := range version.Uploads {
		err = errors.Join(err, l.Client.Upload(ctx, u.Method, u.URL, u.Headers, data))
	}
	return err
}

// deployer returns a round that creates a deployment with a token, and deletes both.
func (h *harness) deployer() func(ctx context.Context, n int) error {
	l := h.s.Loop(h.t.Context())
	return func(ctx context.Context, n int) error {
		var made, token struct{ ID string }
		if err := l.Client.Post(ctx, "/api/model-deployments", map[string]any{"name": l.Name + "-" + strconv.Itoa(n)}, &made); err != nil {
			return err
		}
		path := "/api/model-deployments/" + made.ID
		if err := l.Client.Post(ctx, path+"/tokens", map[string]any{"name": "t"}, &token); err != nil {
			return err
		}
		return errors.Join(
			h.expect(ctx, l, http.StatusNoContent, http.MethodDelete, path+"/tokens/"+token.ID, nil),
			h.expect(ctx, l, http.StatusOK, http.MethodPost, path+"/suspend", map[string]any{"mode": "cut"}),
			h.expect(ctx, l, http.StatusNoContent, http.MethodDelete, path, nil),
		)
	}
}

// user is a round that signs in and sends read requests.
func (h *harness) user(ctx context.Context, _ int) error {
	l := &e2eflow.Loop{Client: client.New(h.s.URL, nil), Clock: clock.Real(), Timeout: testenv.StageTimeout}
	if err := l.Login(ctx, "admin", h.s.Password); err != nil {
		return err
	}
	return h.expect(ctx, l, http.StatusOK, http.MethodGet, "/api/jobs", nil)
}

func (h *harness) expect(ctx context.Context, l *e2eflow.Loop, status int, method, path string, body any) error {
	got, err := l.Client.Call(ctx, method, path, body)
	if err == nil && got.Status != status {
		err = fmt.Errorf("%s %s: status %d, want %d: %s", method, path, got.Status, status, got.Body)
	}
	return err
}
