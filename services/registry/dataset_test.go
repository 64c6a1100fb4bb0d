package registry_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry"
)

// upload sends data to an upload target and returns the response status.
func upload(t *testing.T, target *registryv1.UploadTarget, data []byte) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), target.GetMethod(), target.GetUrl(), bytes.NewReader(data))
	require.NoError(t, err)
	for k, v := range target.GetHeaders() {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

func object(path string, data []byte) *registryv1.ManifestFile {
	return &registryv1.ManifestFile{Path: path, SizeBytes: int64(len(data)), Sha256: sum(data)}
}

// dataset creates a dataset owned by the given caller.
func (h *harness) dataset(c *authn.Caller, name, project string) *registryv1.Dataset {
	h.t.Helper()
	d, err := h.datasets.CreateDataset(h.as(c), &registryv1.CreateDatasetRequest{Name: name, Project: project})
	require.NoError(h.t, err)
	return d
}

// push creates and commits a dataset version with one file.
func (h *harness) push(c *authn.Caller, d *registryv1.Dataset, version string, data []byte) *registryv1.DatasetVersion {
	h.t.Helper()
	made, err := h.datasets.CreateDatasetVersion(h.as(c), &registryv1.CreateDatasetVersionRequest{
		DatasetId: d.GetId(), Version: version, Files: []*registryv1.ManifestFile{object("train.jsonl", data)},
	})
	require.NoError(h.t, err)
	for _, u := range made.GetUploads() {
		require.Less(h.t, upload(h.t, u, data), 300)
	}
	v, err := h.datasets.CommitDatasetVersion(h.as(c), &registryv1.CommitDatasetVersionRequest{DatasetId: d.GetId(), Version: version})
	require.NoError(h.t, err)
	return v
}

func TestDatasetVersion_uploadAndCommit(t *testing.T) {
	t.Parallel()
	h := open(t)
	d := h.dataset(ann(), "sums", "")
	require.Equal(t, "jsonl", d.GetFormat())
	require.Equal(t, "ann", d.GetOwner())
	a, b := []byte("{\"question\":\"1+1?\"}\n"), []byte("second")
	ask := &registryv1.CreateDatasetVersionRequest{
		DatasetId: d.GetId(), Version: "v1", Files: []*registryv1.ManifestFile{object("z/b", b), object("a", a), object("copy", a)},
	}
	made, err := h.datasets.CreateDatasetVersion(h.as(ann()), ask)
	require.NoError(t, err)
	require.Equal(t, "uploading", made.GetVersion().GetState())
	require.Equal(t, int32(3), made.GetVersion().GetFiles())
	require.Len(t, made.GetUploads(), 2, "one upload per distinct object")
	require.Equal(t, "ds/default/sums@v1", made.GetVersion().GetRef())

	commit := &registryv1.CommitDatasetVersionRequest{DatasetId: d.GetId(), Version: "v1"}
	_, err = h.datasets.CommitDatasetVersion(h.as(ann()), commit)
	refused(t, err, fault.Refused, "has not been uploaded")
	require.GreaterOrEqual(t, upload(t, made.GetUploads()[0], []byte("not those bytes....")), 400, "the signature binds the digest")
	require.Less(t, upload(t, made.GetUploads()[0], a), 300)

	// A repeat with the same manifest lists only the missing objects.
	var header metadata.MD
	again, err := h.datasets.CreateDatasetVersion(h.as(ann()), ask, grpc.Header(&header))
	require.NoError(t, err)
	require.Equal(t, []string{"200"}, header.Get("x-service-status"))
	require.Len(t, again.GetUploads(), 1)
	require.Equal(t, "z/b", again.GetUploads()[0].GetPath())
	require.True(t, proto.Equal(made.GetVersion(), again.GetVersion()))
	require.Less(t, upload(t, again.GetUploads()[0], b), 300)

	done, err := h.datasets.CommitDatasetVersion(h.as(ann()), commit)
	require.NoError(t, err)
	require.Equal(t, "ready", done.GetState())
	require.NotNil(t, done.GetCommittedAt())
	repeat, err := h.datasets.CommitDatasetVersion(h.as(ann()), commit)
	require.NoError(t, err)
	require.True(t, proto.Equal(done, repeat))

	_, err = h.datasets.CreateDatasetVersion(h.as(ann()), ask)
	refused(t, err, fault.Conflict, "version v1 of dataset sums already exists")
	ask.Files[0].Path = "../up"
	_, err = h.datasets.CreateDatasetVersion(h.as(ann()), ask)
	refused(t, err, fault.Conflict, "already exists")

	got, err := h.datasets.GetDataset(h.as(bob()), &registryv1.GetDatasetRequest{DatasetId: d.GetId()})
	require.NoError(t, err)
	require.Equal(t, "v1", got.GetLatestVersion())
	list, err := h.datasets.ListDatasetVersions(h.as(bob()), &registryv1.ListDatasetVersionsRequest{DatasetId: d.GetId()})
	require.NoError(t, err)
	require.Len(t, list.GetVersions(), 1)
	require.Empty(t, list.GetVersions()[0].GetManifest())
	one, err := h.datasets.GetDatasetVersion(h.as(bob()), &registryv1.GetDatasetVersionRequest{DatasetId: d.GetId(), Version: "v1"})
	require.NoError(t, err)
	require.Equal(t, "a", one.GetManifest()[0].GetPath(), "the manifest is sorted by path")
}

func TestCreateDatasetVersion_rejections(t *testing.T) {
	t.Parallel()
	h := open(t, func(h *harness) { h.cfg.MaxUploadMB = 1 })
	d := h.dataset(ann(), "sums", "")
	data := []byte("x")
	big := &registryv1.ManifestFile{Path: "big", SizeBytes: 1<<20 + 1, Sha256: sum(data)}
	cases := map[string]struct {
		who   *authn.Caller
		files []*registryv1.ManifestFile
		want  fault.Kind
		words string
	}{
		"not the owner":   {bob(), []*registryv1.ManifestFile{object("a", data)}, fault.Forbidden, "only by its owner"},
		"too large":       {ann(), []*registryv1.ManifestFile{big}, fault.TooLarge, "1 MiB"},
		"parent dir":      {ann(), []*registryv1.ManifestFile{object("../a", data)}, fault.Refused, "must be relative"},
		"absolute":        {ann(), []*registryv1.ManifestFile{object("/a", data)}, fault.Refused, "must be relative"},
		"backslash":       {ann(), []*registryv1.ManifestFile{object(`a\b`, data)}, fault.Refused, "must be relative"},
		"twice":           {ann(), []*registryv1.ManifestFile{object("a", data), object("a", data)}, fault.Refused, "duplicate path"},
		"file and folder": {ann(), []*registryv1.ManifestFile{object("a/b", data), object("a", data), object("a-b", data)}, fault.Refused, "a file and a folder"},
		"no digest":       {ann(), []*registryv1.ManifestFile{{Path: "a", Sha256: "abc"}}, fault.Invalid, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := h.datasets.CreateDatasetVersion(h.as(c.who), &registryv1.CreateDatasetVersionRequest{
				DatasetId: d.GetId(), Version: "v1", Files: c.files,
			})
			refused(t, err, c.want, c.words)
		})
	}
	var rows int
	require.NoError(t, h.db.Pool(registry.Name).QueryRow(t.Context(), `SELECT count(*) FROM dataset_version`).Scan(&rows))
	require.Zero(t, rows)
}

func TestCreateDatasetVersion_conflictWhileUploading(t *testing.T) {
	t.Parallel()
	h := open(t)
	d, err := h.datasets.CreateDataset(h.as(member(ann(), authn.ProjectEditor)), &registryv1.CreateDatasetRequest{Name: "sums", Project: "search"})
	require.NoError(t, err)
	ask := &registryv1.CreateDatasetVersionRequest{DatasetId: d.GetId(), Version: "1", Files: []*registryv1.ManifestFile{object("a", []byte("x"))}}
	_, err = h.datasets.CreateDatasetVersion(h.as(member(ann(), authn.ProjectEditor)), ask)
	require.NoError(t, err)
	_, err = h.datasets.CreateDatasetVersion(h.as(member(bob(), authn.ProjectEditor)), ask)
	refused(t, err, fault.Conflict, "already exists")
	ask.Files = []*registryv1.ManifestFile{object("a", []byte("y"))}
	_, err = h.datasets.CreateDatasetVersion(h.as(member(bob(), authn.ProjectEditor)), ask)
	refused(t, err, fault.Conflict, "already exists")
	_, err = h.datasets.CreateDatasetVersion(h.as(member(ann(), authn.ProjectEditor)), ask)
	require.NoError(t, err, "the creator may correct its own files")
}

func TestHiddenDatasetLooksAbsent(t *testing.T) {
	t.Parallel()
	h := open(t)
	d, err := h.datasets.CreateDataset(h.as(member(ann(), authn.ProjectEditor)), &registryv1.CreateDatasetRequest{Name: "sums", Project: "search"})
	require.NoError(t, err)
	const unknown = "ds_01k00000000000000000000077"
	_, hidden := h.datasets.GetDataset(h.as(bob()), &registryv1.GetDatasetRequest{DatasetId: d.GetId()})
	_, absent := h.datasets.GetDataset(h.as(bob()), &registryv1.GetDatasetRequest{DatasetId: unknown})
	_, codeHidden, textHidden := kind(t, hidden)
	k, codeAbsent, textAbsent := kind(t, absent)
	require.Equal(t, fault.Absent, k)
	require.Equal(t, codeAbsent, codeHidden)
	require.Equal(t, textAbsent, strings.ReplaceAll(textHidden, d.GetId(), unknown))
	for _, who := range []*authn.Caller{member(bob(), authn.ProjectViewer), admin()} {
		_, err := h.datasets.GetDataset(h.as(who), &registryv1.GetDatasetRequest{DatasetId: d.GetId()})
		require.NoError(t, err)
	}
	list, err := h.datasets.ListDatasets(h.as(bob()), &registryv1.ListDatasetsRequest{})
	require.NoError(t, err)
	require.Empty(t, list.GetDatasets())

	_, err = h.datasets.GetDataset(h.as(bob()), &registryv1.GetDatasetRequest{DatasetId: "ds_1"})
	refused(t, err, fault.Invalid, "")
	_, err = h.datasets.CreateDataset(h.as(bob()), &registryv1.CreateDatasetRequest{Name: "x", Project: "search"})
	refused(t, err, fault.Refused, "no such project: search")
	_, err = h.datasets.CreateDataset(h.as(bob()), &registryv1.CreateDatasetRequest{Name: "x", Project: "nowhere"})
	refused(t, err, fault.Refused, "no such project: nowhere")
	_, err = h.datasets.CreateDataset(h.as(member(bob(), authn.ProjectViewer)), &registryv1.CreateDatasetRequest{Name: "x", Project: "search"})
	refused(t, err, fault.Forbidden, "only editors")
}

func TestCreateDataset_idempotencyKeyReturnsFirstRow(t *testing.T) {
	t.Parallel()
	h := open(t)
	ask := &registryv1.CreateDatasetRequest{Name: "sums"}
	first, err := h.datasets.CreateDataset(h.as(ann(), "idempotency-key", "k"), ask)
	require.NoError(t, err)
	again, err := h.datasets.CreateDataset(h.as(ann(), "idempotency-key", "k"), ask)
	require.NoError(t, err)
	require.True(t, proto.Equal(first, again))
	_, err = h.datasets.CreateDataset(h.as(ann(), "idempotency-key", "k"), &registryv1.CreateDatasetRequest{Name: "other"})
	refused(t, err, fault.Conflict, "")
	_, err = h.datasets.CreateDataset(h.as(ann()), ask)
	refused(t, err, fault.Conflict, "already has a dataset sums")
	list, err := h.datasets.ListDatasets(h.as(ann()), &registryv1.ListDatasetsRequest{Name: new("sums")})
	require.NoError(t, err)
	require.Len(t, list.GetDatasets(), 1)
}

func TestUpdateDataset_protectsUnfinishedRuns(t *testing.T) {
	t.Parallel()
	h := open(t)
	d := h.dataset(ann(), "sums", "")
	_, err := h.datasets.UpdateDataset(h.as(ann()), &registryv1.UpdateDatasetRequest{DatasetId: d.GetId(), Protected: new(true)})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		h.runs.mu.Lock()
		defer h.runs.mu.Unlock()
		return slices.Equal([]string{d.GetId() + " ds/default/sums"}, h.runs.protected)
	}, time.Minute, 10*time.Millisecond, "the jobs service protects the runs")
	var later int
	require.NoError(t, h.db.Pool("registry").QueryRow(t.Context(), `SELECT count(*) FROM river_job
		WHERE kind = 'protect_runs' AND scheduled_at > now() + interval '30 seconds'`).Scan(&later))
	require.Equal(t, 1, later, "a second task must protect the runs of submissions that were in progress during the first")
}
