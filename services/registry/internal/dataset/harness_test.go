package dataset_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// limit is the largest version that the test server accepts, in bytes.
const limit = 1 << 20

// projects knows every project; its id is derived from its key.
type projects struct{}

func (projects) Project(_ context.Context, key string) (*access.Project, error) {
	return &access.Project{ID: "prj_" + key, Key: key, Visibility: "team"}, nil
}

// harness is a server with an object store. The test moves the clock.
type harness struct {
	*dataset.Server

	t     *testing.T
	clock *clock.Fake
	blobs *folder.FileStore
	root  string // the folder of blobs
	web   *httptest.Server
	// protections lists the datasets whose runs were protected.
	protections protections
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	d := &harness{t: t, clock: clock.NewFake(fixtures.Now()), root: t.TempDir()}
	ids := id.NewSource(d.clock, rand.Reader)
	var err error
	d.blobs, err = folder.OpenFiles(folder.FileConfig{
		Root: d.root, Limit: limit, PublicURL: func() string { return d.web.URL }, Clock: d.clock, IDs: ids, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.blobs.Close()) })
	d.web = httptest.NewServer(d.blobs.Handler())
	t.Cleanup(d.web.Close)
	pool := open(t)
	d.Server = &dataset.Server{
		Pool: pool, Projects: projects{}, Blobs: d.blobs, Once: &idempotency.Once{Pool: pool, Keys: idempotency.New(d.clock)}, Clock: d.clock, IDs: ids,
		Events: event.NewLog(d.clock, ids, "registry"), Audit: audit.NewLog(d.clock, ids, "registry"), MaxBytes: limit,
		Packer: dataset.NewPacker(pool, d.blobs, d.clock, limit, time.Hour), Protections: &d.protections,
	}
	return d
}

// protections records the datasets that were protected.
type protections []string

func (p *protections) Protect(_ context.Context, _ pgx.Tx, datasetID, ref string) error {
	*p = append(*p, datasetID+" "+ref)
	return nil
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

// as returns the context of a call by an editor of both projects, and the headers that the call sets. If key is not
// empty, it becomes the idempotency key.
func as(t *testing.T, subject, key string) (context.Context, *headers) {
	t.Helper()
	c := &authn.Caller{Kind: authn.KindUser, Subject: subject, Username: subject, Role: authn.RoleOperator, Projects: []authn.ProjectRole{
		{Project: "prj_team", Role: authn.ProjectEditor}, {Project: "prj_other", Role: authn.ProjectEditor},
	}}
	h := &headers{}
	ctx := grpc.NewContextWithServerTransportStream(authn.WithNeed(authn.NewContext(t.Context(), c), authn.NeedEdit), h)
	if key != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
	}
	return ctx, h
}

// make creates a dataset owned by usr_1.
func (d *harness) make(name, project string) *registryv1.Dataset {
	d.t.Helper()
	ctx, _ := as(d.t, "usr_1", "")
	made, err := d.CreateDataset(ctx, &registryv1.CreateDatasetRequest{Name: name, Project: project})
	require.NoError(d.t, err)
	return made
}

func sum(data string) string {
	s := sha256.Sum256([]byte(data))
	return hex.EncodeToString(s[:])
}

// of returns a manifest. The arguments alternate between paths and contents.
func of(files ...string) []*registryv1.ManifestFile {
	var out []*registryv1.ManifestFile
	for i := 0; i < len(files); i += 2 {
		out = append(out, &registryv1.ManifestFile{Path: files[i], SizeBytes: int64(len(files[i+1])), Sha256: sum(files[i+1])})
	}
	return out
}

// begin creates a version, whose state is then uploading.
func (d *harness) begin(user string, s *registryv1.Dataset, version string, files []*registryv1.ManifestFile) (*registryv1.CreateDatasetVersionResponse, error) {
	d.t.Helper()
	ctx, _ := as(d.t, user, "")
	return d.CreateDatasetVersion(ctx, &registryv1.CreateDatasetVersionRequest{DatasetId: s.GetId(), Version: version, Files: files})
}

func (d *harness) commit(user string, s *registryv1.Dataset, version string) (*registryv1.DatasetVersion, error) {
	d.t.Helper()
	ctx, _ := as(d.t, user, "")
	return d.CommitDatasetVersion(ctx, &registryv1.CommitDatasetVersionRequest{DatasetId: s.GetId(), Version: version})
}

// put uploads bytes to a target and returns the HTTP status.
func (d *harness) put(target *registryv1.UploadTarget, data string) int {
	d.t.Helper()
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

// push creates, uploads and commits a version with one file.
func (d *harness) push(s *registryv1.Dataset, version, data string) *registryv1.DatasetVersion {
	d.t.Helper()
	made, err := d.begin("usr_1", s, version, of("a", data))
	require.NoError(d.t, err)
	for _, u := range made.GetUploads() {
		require.Less(d.t, d.put(u, data), 300)
	}
	v, err := d.commit("usr_1", s, version)
	require.NoError(d.t, err)
	return v
}

// unavailableStore is an object store whose Stat fails.
type unavailableStore struct{ blob.Store }

func (unavailableStore) Stat(context.Context, string) (blob.Info, error) {
	return blob.Info{}, fault.New(fault.Dependency, blob.CodeStore, "the object store is unavailable")
}
