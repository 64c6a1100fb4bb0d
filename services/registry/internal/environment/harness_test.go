package environment_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	folder "github.com/signalbox-dev/signalbox/platform/blob/objectstore"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/environment"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// limit is the largest upload that the test server accepts.
const limit = 1 << 20

type projects struct{}

func (projects) Project(_ context.Context, key string) (*access.Project, error) {
	return &access.Project{ID: "prj_" + key, Key: key, Visibility: "team"}, nil
}

// queued collects the ids of the versions whose validation was queued.
type queued struct{ ids []string }

func (q *queued) Validate(_ context.Context, _ pgx.Tx, id string) error {
	q.ids = append(q.ids, id)
	return nil
}

// harness is a server with its worker and its object store.
type harness struct {
	*environment.Server

	t      *testing.T
	clock  *clock.Fake
	blobs  *folder.FileStore
	web    *httptest.Server
	queue  *queued
	worker *environment.Validator
}

func open(t *testing.T) *harness {
	t.Helper()
	d := &harness{t: t, clock: clock.NewFake(fixtures.Now()), queue: &queued{}}
	ids := id.NewSource(d.clock, rand.Reader)
	var err error
	d.blobs, err = folder.OpenFiles(folder.FileConfig{
		Root: t.TempDir(), Limit: limit, PublicURL: func() string { return d.web.URL }, Clock: d.clock, IDs: ids, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.blobs.Close()) })
	d.web = httptest.NewServer(d.blobs.Handler())
	t.Cleanup(d.web.Close)
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: files}).Pool("registry")
	events := event.NewLog(d.clock, ids, "registry")
	d.Server = &environment.Server{
		Pool: pool, Projects: projects{}, Blobs: d.blobs, Queue: d.queue, Once: &idempotency.Once{Pool: pool, Keys: idempotency.New(d.clock)}, Events: events,
		Audit: audit.NewLog(d.clock, ids, "registry"), Clock: d.clock, IDs: ids, MaxBytes: limit,
	}
	d.worker = &environment.Validator{Pool: pool, Blobs: d.blobs, Events: events, Clock: d.clock, MaxBytes: limit}
	return d
}

// work runs the queued validations.
func (d *harness) work() {
	d.t.Helper()
	for _, id := range d.queue.ids {
		require.NoError(d.t, d.worker.Work(d.t.Context(), &river.Job[environment.ValidateArgs]{Args: environment.ValidateArgs{VersionID: id}}))
	}
	d.queue.ids = nil
}

// headers collects the headers that a call sets.
type headers struct {
	grpc.ServerTransportStream

	sent metadata.MD
}

func (h *headers) SetHeader(md metadata.MD) error {
	h.sent = metadata.Join(h.sent, md)
	return nil
}

func (h *headers) status() string {
	if s := h.sent.Get("x-service-status"); len(s) > 0 {
		return s[0]
	}
	return ""
}

// as returns the context of a call by the given user, who has the given role in project team, and the headers that the
// call sets. If key is not empty, it becomes the idempotency key.
func as(t *testing.T, subject, role, key string) (context.Context, *headers) {
	t.Helper()
	c := &authn.Caller{Kind: authn.KindUser, Subject: subject, Username: subject, Role: authn.RoleOperator}
	if role != "" {
		c.Projects = []authn.ProjectRole{{Project: "prj_team", Role: role}}
	}
	h := &headers{}
	ctx := grpc.NewContextWithServerTransportStream(authn.WithNeed(authn.NewContext(t.Context(), c), authn.NeedEdit), h)
	if key != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
	}
	return ctx, h
}

func (d *harness) make(name string) *registryv1.Environment {
	d.t.Helper()
	ctx, _ := as(d.t, "usr_1", authn.ProjectEditor, "")
	e, err := d.CreateEnvironment(ctx, &registryv1.CreateEnvironmentRequest{Name: name, Project: "team"})
	require.NoError(d.t, err)
	return e
}

func sum(data string) string {
	s := sha256.Sum256([]byte(data))
	return hex.EncodeToString(s[:])
}

// upload uploads bytes of a kind and returns the HTTP status.
func (d *harness) upload(e *registryv1.Environment, kind, data string) int {
	d.t.Helper()
	ctx, _ := as(d.t, "usr_1", authn.ProjectEditor, "")
	target, err := d.SignEnvironmentUpload(ctx, &registryv1.SignEnvironmentUploadRequest{
		EnvironmentId: e.GetId(), Kind: kind, SizeBytes: int64(len(data)), Sha256: sum(data),
	})
	require.NoError(d.t, err)
	require.True(d.t, d.clock.Now().Add(blob.MaxExpires).Equal(target.GetExpiresAt().AsTime()))
	req, err := http.NewRequestWithContext(d.t.Context(), target.GetMethod(), target.GetUrl(), bytes.NewReader([]byte(data)))
	require.NoError(d.t, err)
	for k, v := range target.GetHeaders() {
		req.Header.Set(k, v)
	}
	resp, err := d.web.Client().Do(req)
	require.NoError(d.t, err)
	require.NoError(d.t, resp.Body.Close())
	return resp.StatusCode
}

// tasks returns n tasks of split "train" and one of split "test".
func tasks(n int) string {
	return strings.Repeat(`{"prompt": "planted", "split": "train"}`+"\n", n) + `{"prompt": "planted", "split": "test"}` + "\n"
}

// of returns a manifest for the given taskset.
func of(taskset string, count int32, change ...func(*registryv1.EnvironmentManifest)) *registryv1.EnvironmentManifest {
	m := &registryv1.EnvironmentManifest{
		Api: "env/v1", Entry: "math:Env", Python: ">=3.11", Harness: &registryv1.EnvironmentHarness{Id: "verifiers", Version: "0.1"},
		RewardComponents: []*registryv1.RewardComponent{{Name: "right", Weight: 0.5, Range: []float64{0, 1}}},
		Limits:           &registryv1.EnvironmentLimits{Turns: 8, Timeouts: &registryv1.EnvironmentTimeouts{Agent: 60}},
		Taskset:          &registryv1.EnvironmentTaskset{Digest: "sha256:" + sum(taskset), Count: count},
	}
	for _, c := range change {
		c(m)
	}
	return m
}

type versionRequest = registryv1.CreateEnvironmentVersionRequest

// register creates a version as usr_1. It also returns the HTTP status that the call set, or "" for the default status.
func (d *harness) register(e *registryv1.Environment, version string, m *registryv1.EnvironmentManifest, change ...func(*versionRequest)) (*registryv1.EnvironmentVersion, string, error) {
	d.t.Helper()
	return d.registerAs(e, "usr_1", "", version, m, change...)
}

func (d *harness) registerAs(
	e *registryv1.Environment, user, key, version string, m *registryv1.EnvironmentManifest, change ...func(*versionRequest),
) (*registryv1.EnvironmentVersion, string, error) {
	d.t.Helper()
	ctx, h := as(d.t, user, authn.ProjectEditor, key)
	in := &versionRequest{EnvironmentId: e.GetId(), Version: version, Manifest: m}
	for _, c := range change {
		c(in)
	}
	v, err := d.CreateEnvironmentVersion(ctx, in)
	return v, h.status(), err
}

func (d *harness) version(e *registryv1.Environment, version string) *registryv1.EnvironmentVersion {
	d.t.Helper()
	ctx, _ := as(d.t, "usr_1", authn.ProjectViewer, "")
	v, err := d.GetEnvironmentVersion(ctx, &registryv1.GetEnvironmentVersionRequest{EnvironmentId: e.GetId(), Version: version})
	require.NoError(d.t, err)
	return v
}

func (d *harness) count(from string) (n int) {
	d.t.Helper()
	require.NoError(d.t, d.Pool.QueryRow(d.t.Context(), `SELECT count(*) FROM `+from).Scan(&n))
	return n
}
