package codepackage_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

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
	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/services/registry/internal/codepackage"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// limit is the largest upload that the test server accepts.
const limit = 1 << 20

type projects struct{}

func (projects) Project(_ context.Context, key string) (*access.Project, error) {
	return &access.Project{ID: "prj_" + key, Key: key, Visibility: "team"}, nil
}

type harness struct {
	*codepackage.Server

	t   *testing.T
	web *httptest.Server
}

func open(t *testing.T) *harness {
	t.Helper()
	d := &harness{t: t}
	clk := clock.NewFake(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	ids := id.NewSource(clk, rand.Reader)
	blobs, err := folder.OpenFiles(folder.FileConfig{
		Root: t.TempDir(), Limit: limit, PublicURL: func() string { return d.web.URL }, Clock: clk, IDs: ids, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, blobs.Close()) })
	d.web = httptest.NewServer(blobs.Handler())
	t.Cleanup(d.web.Close)
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: files}).Pool("registry")
	d.Server = &codepackage.Server{
		Pool: pool, Projects: projects{}, Blobs: blobs, Once: &idempotency.Once{Pool: pool, Keys: idempotency.New(clk)}, Events: event.NewLog(clk, ids, "registry"),
		Audit: audit.NewLog(clk, ids, "registry"), Clock: clk, IDs: ids, MaxBytes: limit,
		Log: slog.New(slog.DiscardHandler),
		Unused: &retention.Sweeper{
			Objects: blobs, Pool: pool, Prefix: db.ObjectPrefix, LockSQL: db.LockObjectsSQL, Unused: db.UnusedObjects,
		},
	}
	return d
}

type headers struct {
	grpc.ServerTransportStream

	sent metadata.MD
}

func (h *headers) SetHeader(md metadata.MD) error {
	h.sent = metadata.Join(h.sent, md)
	return nil
}

// as returns the context of a call by the given user, who has the given role in both projects, and the headers that the
// call sets. If key is not empty, it becomes the idempotency key.
func as(t *testing.T, subject, role, key string) (context.Context, *headers) {
	t.Helper()
	c := &authn.Caller{Kind: authn.KindUser, Subject: subject, Username: subject, Role: authn.RoleOperator}
	if role != "" {
		c.Projects = []authn.ProjectRole{{Project: "prj_team", Role: role}, {Project: "prj_other", Role: role}}
	}
	h := &headers{}
	ctx := grpc.NewContextWithServerTransportStream(authn.WithNeed(authn.NewContext(t.Context(), c), authn.NeedEdit), h)
	if key != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
	}
	return ctx, h
}

// packed returns a gzipped tar file. The arguments alternate between paths and contents.
func packed(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	out := tar.NewWriter(zip)
	for i := 0; i < len(files); i += 2 {
		require.NoError(t, out.WriteHeader(&tar.Header{Name: files[i], Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[i+1]))}))
		_, err := out.Write([]byte(files[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, errors.Join(out.Close(), zip.Close()))
	return b.Bytes()
}

func request(project string, data []byte) *registryv1.CreatePackageRequest {
	sum := sha256.Sum256(data)
	return &registryv1.CreatePackageRequest{Project: project, SizeBytes: int64(len(data)), Sha256: hex.EncodeToString(sum[:])}
}

func (d *harness) put(p *registryv1.Package, data []byte) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), p.GetUpload().GetMethod(), p.GetUpload().GetUrl(), bytes.NewReader(data))
	require.NoError(d.t, err)
	for k, v := range p.GetUpload().GetHeaders() {
		req.Header.Set(k, v)
	}
	resp, err := d.web.Client().Do(req)
	require.NoError(d.t, err)
	require.NoError(d.t, resp.Body.Close())
	require.Equal(d.t, http.StatusOK, resp.StatusCode)
}

// make creates and uploads a package without committing it.
func (d *harness) make(project string, data []byte) *registryv1.Package {
	d.t.Helper()
	ctx, _ := as(d.t, "usr_1", authn.ProjectEditor, "")
	p, err := d.CreatePackage(ctx, request(project, data))
	require.NoError(d.t, err)
	d.put(p, data)
	return p
}

func (d *harness) commit(p *registryv1.Package) (*registryv1.Package, error) {
	d.t.Helper()
	ctx, _ := as(d.t, "usr_1", authn.ProjectEditor, "")
	return d.CommitPackage(ctx, &registryv1.CommitPackageRequest{PackageId: p.GetId()})
}

func (d *harness) resolved(p *registryv1.Package) error {
	d.t.Helper()
	b, err := d.Store.Get(d.t.Context(), d.Pool, access.ServiceScope().WithNeed(authn.NeedRead), p.GetId())
	require.NoError(d.t, err)
	return b.Refusal()
}

func (d *harness) count(from string) (n int) {
	d.t.Helper()
	require.NoError(d.t, d.Pool.QueryRow(d.t.Context(), `SELECT count(*) FROM `+from).Scan(&n))
	return n
}

func TestPackageUploadedOncePerProject(t *testing.T) {
	t.Parallel()
	d := open(t)
	data := packed(t, "train.py", "print(1)")
	p := d.make("team", data)
	require.Equal(t, []any{"uploading", false, "team"}, []any{p.GetState(), p.GetExists(), p.GetProject()})
	require.True(t, fault.HasCode(d.resolved(p), "package"), "jobs cannot use a package before it is inspected")
	done, err := d.commit(p)
	require.NoError(t, err)
	require.Equal(t, "accepted", done.GetState())
	require.NoError(t, d.resolved(p))
	again, err := d.commit(p)
	require.NoError(t, err)
	require.True(t, proto.Equal(done, again))
	require.Equal(t, 1, d.count(`audit WHERE action = 'package.commit'`))
	ctx, h := as(t, "usr_2", authn.ProjectEditor, "")
	there, err := d.CreatePackage(ctx, request("team", data))
	require.NoError(t, err)
	require.Equal(t, []any{p.GetId(), true, []string{"200"}}, []any{there.GetId(), there.GetExists(), h.sent.Get("x-service-status")})
	require.Nil(t, there.GetUpload())
	elsewhere, err := d.CreatePackage(ctx, request("other", data))
	require.NoError(t, err)
	require.False(t, elsewhere.GetExists(), "other projects do not see that the bytes exist")
	require.NotNil(t, elsewhere.GetUpload())
}

func TestCommitPackage_inspectsOnce(t *testing.T) {
	t.Parallel()
	d := open(t)
	for name, c := range map[string]struct {
		data []byte
		kind fault.Kind
		gate string
		text string
	}{
		"outside":   {packed(t, "../x", "y"), fault.Refused, "package", "package: ../x is not an accepted path"},
		"secret":    {packed(t, "train.py", "x", "conf/.env", "KEY=1"), fault.Refused, "sensitive_file", "sensitive_file: conf/.env may hold a secret"},
		"too large": {packed(t, "zeros", strings.Repeat("0", limit+1)), fault.TooLarge, "package", "package: the package unpacks to more than the installation's limit of 1 MiB"},
		"not a tar": {[]byte("hello"), fault.Refused, "package", "package: the package is not a complete tar file"},
	} {
		p := d.make("team", c.data)
		for range 2 {
			_, err := d.commit(p)
			require.True(t, fault.Is(err, c.kind) && fault.HasCode(err, c.gate), "%s: %v", name, err)
			require.ErrorContains(t, err, c.text)
		}
		sum := sha256.Sum256(c.data)
		_, err := d.Blobs.Stat(t.Context(), codepackage.Key("prj_team", hex.EncodeToString(sum[:])))
		require.True(t, fault.Is(err, fault.Absent), "%s: a refused package leaves no object: %v", name, err)
		err = d.resolved(p)
		require.True(t, fault.Is(err, c.kind) && fault.HasCode(err, c.gate), "%s: a job gets the same error: %v", name, err)
		ctx, _ := as(t, "usr_1", authn.ProjectViewer, "")
		got, err := d.GetPackage(ctx, &registryv1.GetPackageRequest{PackageId: p.GetId()})
		require.NoError(t, err)
		require.Equal(t, "refused", got.GetState())
		require.Contains(t, got.GetRefusal(), c.text)
		editor, _ := as(t, "usr_1", authn.ProjectEditor, "")
		fresh, err := d.CreatePackage(editor, request("team", c.data))
		require.NoError(t, err)
		require.False(t, fresh.GetExists(), "a refused package is not reused")
	}
	require.Equal(t, 4, d.count(`audit WHERE action = 'package.commit'`))
}

func TestCommitPackage_requiresUploadedBytes(t *testing.T) {
	t.Parallel()
	d := open(t)
	ctx, _ := as(t, "usr_1", authn.ProjectEditor, "")
	data := packed(t, "a", "b")
	p, err := d.CreatePackage(ctx, request("team", data))
	require.NoError(t, err)
	_, err = d.commit(p)
	require.True(t, fault.Is(err, fault.Refused) && fault.HasCode(err, "package"), "%v", err)
	d.put(p, data)
	d.Blobs = unavailableStore{d.Blobs}
	_, err = d.commit(p)
	require.True(t, fault.Is(err, fault.Dependency), "%v", err)
	require.Equal(t, 1, d.count(`package WHERE state = 'uploading'`), "the state is unchanged while the object store is unavailable")
	d.Blobs = d.Blobs.(unavailableStore).Store
	_, err = d.commit(p)
	require.NoError(t, err)
	_, err = d.CreatePackage(ctx, &registryv1.CreatePackageRequest{Project: "team", SizeBytes: limit + 1, Sha256: strings.Repeat("0", 64)})
	require.True(t, fault.Is(err, fault.TooLarge), "%v", err)
}

// unavailableStore is an object store that is unavailable.
type unavailableStore struct{ blob.Store }

func (unavailableStore) Get(context.Context, string) (io.ReadCloser, blob.Info, error) {
	return nil, blob.Info{}, fault.New(fault.Dependency, blob.CodeStore, "the object store is unavailable")
}

func TestCommitPackage_concurrentCallsRecordOneResult(t *testing.T) {
	t.Parallel()
	d := open(t)
	p := d.make("team", packed(t, "a", "b"))
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		ctx, _ := as(t, "usr_1", authn.ProjectEditor, "")
		wg.Go(func() {
			_, errs[i] = d.CommitPackage(ctx, &registryv1.CommitPackageRequest{PackageId: p.GetId()})
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, 1, d.count(`event WHERE subject_kind = 'package' AND type = 'judged'`))
}

func TestCreatePackage_repeatedKeyReturnsNewURL(t *testing.T) {
	t.Parallel()
	d := open(t)
	data := packed(t, "a", "b")
	create := func() *registryv1.Package {
		ctx, _ := as(t, "usr_1", authn.ProjectEditor, "k")
		p, err := d.CreatePackage(ctx, request("team", data))
		require.NoError(t, err)
		return p
	}
	first, again := create(), create()
	require.Equal(t, first.GetId(), again.GetId())
	require.NotEmpty(t, again.GetUpload().GetUrl())
	require.Equal(t, 1, d.count(`package`))
}

func TestPackagePermissions(t *testing.T) {
	t.Parallel()
	d := open(t)
	p := d.make("team", packed(t, "a", "b"))
	viewer, _ := as(t, "usr_3", authn.ProjectViewer, "")
	_, err := d.CommitPackage(viewer, &registryv1.CommitPackageRequest{PackageId: p.GetId()})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = d.GetPackage(viewer, &registryv1.GetPackageRequest{PackageId: p.GetId()})
	require.NoError(t, err)
	_, err = d.CreatePackage(viewer, request("team", []byte("x")))
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	stranger, _ := as(t, "usr_4", "", "")
	const unknown = "pkg_01k00000000000000000000077"
	for _, call := range []func(string) error{
		func(at string) error {
			_, err := d.GetPackage(stranger, &registryv1.GetPackageRequest{PackageId: at})
			return err
		},
		func(at string) error {
			_, err := d.CommitPackage(stranger, &registryv1.CommitPackageRequest{PackageId: at})
			return err
		},
	} {
		hidden, absent := call(p.GetId()), call(unknown)
		require.True(t, fault.Is(hidden, fault.Absent), "%v", hidden)
		require.Equal(t, fault.From(absent).Text(), strings.ReplaceAll(fault.From(hidden).Text(), p.GetId(), unknown))
		require.True(t, fault.Is(call("pkg_1"), fault.Invalid))
	}
}
