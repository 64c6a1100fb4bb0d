package dataset_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

const planted = `{"prompt": "planted", "score": 1, "tags": ["planted"]}` + "\n" + `{"prompt": "planted too", "score": 1.5}` + "\n"

// showing returns the calls that return files or records.
func (d *harness) showing(s *registryv1.Dataset) map[string]func(context.Context) (proto.Message, error) {
	id := s.GetId()
	return map[string]func(context.Context) (proto.Message, error){
		"files": func(ctx context.Context) (proto.Message, error) {
			return d.ListDatasetFiles(ctx, &registryv1.ListDatasetFilesRequest{DatasetId: id, Version: "v1"})
		},
		"download": func(ctx context.Context) (proto.Message, error) {
			return d.SignDatasetDownload(ctx, &registryv1.SignDatasetDownloadRequest{DatasetId: id, Version: "v1", Path: "a"})
		},
		"downloads": func(ctx context.Context) (proto.Message, error) {
			return d.ListDatasetDownloads(ctx, &registryv1.ListDatasetDownloadsRequest{DatasetId: id, Version: "v1"})
		},
		"preview": func(ctx context.Context) (proto.Message, error) {
			return d.PreviewDatasetVersion(ctx, &registryv1.PreviewDatasetVersionRequest{DatasetId: id, Version: "v1"})
		},
	}
}

func (d *harness) protect(name string) *registryv1.Dataset {
	d.t.Helper()
	ctx, _ := as(d.t, "usr_1", "")
	s, err := d.CreateDataset(ctx, &registryv1.CreateDatasetRequest{Name: name, Project: "team", Protected: true})
	require.NoError(d.t, err)
	require.True(d.t, s.GetProtected())
	return s
}

func TestProtectedDataset_showsOnlyIdentityAndSchema(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.protect("secret")
	v := d.push(s, "v1", planted)
	require.Empty(t, v.GetManifest())
	require.Equal(t, []any{int32(1), int64(len(planted))}, []any{v.GetFiles(), v.GetBytes()})
	refusals := 0
	for name, ctx := range map[string]context.Context{
		"owner": callerCtx(t, "usr_1", authn.RoleOperator), "admin": callerCtx(t, "usr_5", authn.RoleAdmin),
		"editor": callerCtx(t, "usr_2", authn.RoleOperator, authn.ProjectRole{Project: "prj_team", Role: authn.ProjectEditor}),
		"viewer": callerCtx(t, "usr_3", authn.RoleOperator, authn.ProjectRole{Project: "prj_team", Role: authn.ProjectViewer}),
	} {
		for what, call := range d.showing(s) {
			_, err := call(ctx)
			require.True(t, fault.Is(err, fault.Forbidden) && fault.HasCode(err, "dataset_protected"), "%s of %s: %v", what, name, err)
			refusals++
		}
		got, err := d.GetDatasetVersion(ctx, &registryv1.GetDatasetVersionRequest{DatasetId: s.GetId(), Version: "v1"})
		require.NoError(t, err)
		require.True(t, proto.Equal(v, got))
		shape, err := d.GetDatasetSchema(ctx, &registryv1.GetDatasetSchemaRequest{DatasetId: s.GetId(), Version: "v1"})
		require.NoError(t, err)
		require.Equal(t, []any{"inferred", int32(2), v.GetDigest(), "jsonl"}, []any{shape.GetSource(), shape.GetSampledRows(), shape.GetDigest(), shape.GetFormat()})
		require.JSONEq(t, `{"type":"object","properties":{"prompt":{"type":["string"]},"score":{"type":["number"]},"tags":{"type":["array"]}},
			"required":["prompt","score"]}`, string(shape.GetSchema()))
		text := fmt.Sprint(got, shape)
		require.NotContains(t, text, "planted")
		require.NotContains(t, text, sum(planted), "a file digest would allow guesses about the content to be tested")
	}
	var noted int
	require.NoError(t, d.Pool.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE action = 'dataset.access.refuse' AND target_id = $1
		AND after->>'version' = 'v1' AND after->>'what' IN ('files', 'download', 'preview')`, s.GetId()).Scan(&noted))
	require.Equal(t, refusals, noted, "the audit log contains every refusal")
	stranger := callerCtx(t, "usr_4", authn.RoleOperator)
	for what, call := range d.showing(s) {
		_, err := call(stranger)
		require.True(t, fault.Is(err, fault.Absent), "%s: %v", what, err)
	}
	uploads, err := d.begin("usr_1", s, "v2", of("b", "more"))
	require.NoError(t, err)
	require.Len(t, uploads.GetUploads(), 1, "uploads get their URLs")
	require.Empty(t, uploads.GetVersion().GetManifest())
}

func TestUpdateDataset_protectionIsPermanent(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	d.push(s, "v1", planted)
	ctx, _ := as(t, "usr_1", "")
	update := func(protected *bool, description *string) (*registryv1.Dataset, error) {
		return d.UpdateDataset(ctx, &registryv1.UpdateDatasetRequest{DatasetId: s.GetId(), Protected: protected, Description: description})
	}
	got, err := update(new(false), nil)
	require.NoError(t, err, "the dataset is not protected, so false changes nothing")
	require.False(t, got.GetProtected())
	got, err = update(nil, new("words"))
	require.NoError(t, err)
	require.Equal(t, []any{"words", false}, []any{got.GetDescription(), got.GetProtected()})
	for _, call := range d.showing(s) {
		_, err := call(ctx)
		require.NoError(t, err)
	}
	got, err = update(new(true), nil)
	require.NoError(t, err)
	require.Equal(t, []any{"words", true}, []any{got.GetDescription(), got.GetProtected()})
	for what, call := range d.showing(s) {
		_, err := call(ctx)
		require.True(t, fault.Is(err, fault.Forbidden), "%s: %v", what, err)
	}
	_, err = update(new(false), new("other"))
	require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "dataset_protected"), "%v", err)
	got, err = update(new(true), nil)
	require.NoError(t, err)
	require.Equal(t, "words", got.GetDescription(), "the refused update changed nothing")
	require.Equal(t, protections{s.GetId() + " ds/team/sums"}, d.protections, "its unfinished runs are protected once")
	var audited int
	require.NoError(t, d.Pool.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE action = 'dataset.update'`).Scan(&audited))
	require.Equal(t, 2, audited, "updates without a change are not audited")
	viewer := callerCtx(t, "usr_3", authn.RoleOperator, authn.ProjectRole{Project: "prj_team", Role: authn.ProjectViewer})
	_, err = d.UpdateDataset(viewer, &registryv1.UpdateDatasetRequest{DatasetId: s.GetId(), Description: new("x")})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = d.ArchiveDatasetVersion(viewer, &registryv1.ArchiveDatasetVersionRequest{DatasetId: s.GetId(), Version: "v1"})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
}

// Bytes that were pushed before the dataset was protected remain under the shared keys of its project.
func TestProtectedDataset_protectedLaterStopsSharingBytes(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s, other := d.make("sums", "team"), d.make("other", "team")
	d.push(s, "v1", planted)
	same, err := d.begin("usr_1", other, "v1", of("a", planted))
	require.NoError(t, err)
	require.Empty(t, same.GetUploads(), "the project already has these bytes")
	ctx, _ := as(t, "usr_1", "")
	_, err = d.UpdateDataset(ctx, &registryv1.UpdateDatasetRequest{DatasetId: s.GetId(), Protected: new(true)})
	require.NoError(t, err)
	begun, err := d.begin("usr_1", other, "v2", of("a", planted, "b", "more"))
	require.NoError(t, err)
	require.Len(t, begun.GetUploads(), 2, "the project still has the bytes, but they are protected")
	_, err = d.commit("usr_1", other, "v2")
	require.Error(t, err)
	for i, data := range []string{planted, "more"} {
		require.Less(t, d.put(begun.GetUploads()[i], data), 300)
	}
	_, err = d.commit("usr_1", other, "v2")
	require.NoError(t, err, "uploading the bytes is allowed")
}

// get returns the body of a response.
func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return string(body)
}

func TestDatasetFilesDownloadAndPreview(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	ctx, h := as(t, "usr_1", "")
	made, err := d.begin("usr_1", s, "v1", of("a", planted+"\nno JSON\n"+`{"n": `+strings.Repeat("1", 70<<10)+"}", "b/c", "x", "b/d", "y"))
	require.NoError(t, err)
	for what, call := range d.showing(s) {
		_, err := call(ctx)
		require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "dataset_version_state"), "%s of an uploading version must be a conflict: %v", what, err)
	}
	for i, data := range []string{planted + "\nno JSON\n" + `{"n": ` + strings.Repeat("1", 70<<10) + "}", "x", "y"} {
		require.Less(t, d.put(made.GetUploads()[i], data), 300)
	}
	_, err = d.commit("usr_1", s, "v1")
	require.NoError(t, err)
	files, err := d.ListDatasetFiles(ctx, &registryv1.ListDatasetFilesRequest{DatasetId: s.GetId(), Version: "v1", Limit: new(int32(1)), Offset: new(int32(1))})
	require.NoError(t, err)
	require.Len(t, files.GetFiles(), 1)
	require.Equal(t, "b/c", files.GetFiles()[0].GetPath())
	require.Equal(t, []any{[]string{"true"}, []string{"3"}}, []any{h.sent.Get("x-service-more"), h.sent.Get("x-service-total")})
	files, err = d.ListDatasetFiles(ctx, &registryv1.ListDatasetFilesRequest{DatasetId: s.GetId(), Version: "v1", Offset: new(int32(100_000))})
	require.NoError(t, err)
	require.Empty(t, files.GetFiles())

	links, err := d.ListDatasetDownloads(ctx, &registryv1.ListDatasetDownloadsRequest{DatasetId: s.GetId(), Version: "v1", Offset: new(int32(1))})
	require.NoError(t, err)
	require.Len(t, links.GetFiles(), 2)
	for i, want := range []string{"x", "y"} {
		f := links.GetFiles()[i]
		require.Equal(t, []any{"b/" + string(rune('c'+i)), int64(1), sum(want), "GET"}, []any{f.GetPath(), f.GetSizeBytes(), f.GetSha256(), f.GetMethod()})
		require.Equal(t, want, get(t, f.GetUrl()))
	}
	link, err := d.SignDatasetDownload(ctx, &registryv1.SignDatasetDownloadRequest{DatasetId: s.GetId(), Version: "v1", Path: "b/d"})
	require.NoError(t, err)
	require.Equal(t, []any{"y", int64(1), sum("y"), "GET"}, []any{get(t, link.GetUrl()), link.GetSizeBytes(), link.GetSha256(), link.GetMethod()})
	for _, path := range []string{"b", "b/", "z", "b/c/", "../b/d"} {
		_, err := d.SignDatasetDownload(ctx, &registryv1.SignDatasetDownloadRequest{DatasetId: s.GetId(), Version: "v1", Path: path})
		require.True(t, fault.Is(err, fault.Absent), "%s: %v", path, err)
	}

	shown, err := d.PreviewDatasetVersion(ctx, &registryv1.PreviewDatasetVersionRequest{DatasetId: s.GetId(), Version: "v1", Limit: new(int32(2))})
	require.NoError(t, err)
	require.Equal(t, []any{"a", 2, true}, []any{shown.GetPath(), len(shown.GetRows()), shown.GetTruncated()})
	require.JSONEq(t, `{"prompt": "planted", "score": 1, "tags": ["planted"]}`, string(shown.GetRows()[0].GetValue()))
	shown, err = d.PreviewDatasetVersion(ctx, &registryv1.PreviewDatasetVersionRequest{DatasetId: s.GetId(), Version: "v1"})
	require.NoError(t, err)
	require.False(t, shown.GetTruncated())
	var wrong []string
	for _, row := range shown.GetRows() {
		wrong = append(wrong, row.GetError())
		require.Equal(t, row.GetError() == "", len(row.GetValue()) > 0)
	}
	require.Equal(t, []string{"", "", "the row is not JSON", "the row is not JSON", "the row is longer than 64 KiB"}, wrong)
	shape, err := d.GetDatasetSchema(ctx, &registryv1.GetDatasetSchemaRequest{DatasetId: s.GetId(), Version: "v1"})
	require.NoError(t, err)
	require.Equal(t, []any{"none", 0}, []any{shape.GetSource(), len(shape.GetSchema())}, "rows that do not form a table have no schema")
}

func TestDatasetVersion_declaredSchema(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	ctx, _ := as(t, "usr_1", "")
	begin := func(version, schema string) (*registryv1.CreateDatasetVersionResponse, error) {
		return d.CreateDatasetVersion(ctx, &registryv1.CreateDatasetVersionRequest{DatasetId: s.GetId(), Version: version, Files: of("a", "hello"), Schema: []byte(schema)})
	}
	for _, bad := range []string{`[]`, `"x"`, `{"a":1,"a":2}`, `{"a":9007199254740993}`} {
		_, err := begin("v1", bad)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", bad, err)
		require.Equal(t, []any{"schema"}, fault.From(err).Fields[0].Loc)
	}
	for version, c := range map[string][2]string{"v1": {`{"type":"object"}`, "declared"}, "v2": {`null`, "none"}, "v3": {``, "none"}} {
		made, err := begin(version, c[0])
		require.NoError(t, err)
		for _, u := range made.GetUploads() {
			require.Less(t, d.put(u, "hello"), 300)
		}
		_, err = d.commit("usr_1", s, version)
		require.NoError(t, err)
		got, err := d.GetDatasetSchema(ctx, &registryv1.GetDatasetSchemaRequest{DatasetId: s.GetId(), Version: version})
		require.NoError(t, err)
		require.Equal(t, c[1], got.GetSource(), version)
		if c[1] == "declared" {
			require.JSONEq(t, c[0], string(got.GetSchema()))
		}
	}
	_, err := d.PreviewDatasetVersion(ctx, &registryv1.PreviewDatasetVersionRequest{DatasetId: s.GetId(), Version: "v1"})
	require.NoError(t, err)
	made, err := d.CreateDataset(ctx, &registryv1.CreateDatasetRequest{Name: "table", Project: "team", Format: "parquet"})
	require.NoError(t, err)
	d.push(made, "v1", "PAR1")
	_, err = d.PreviewDatasetVersion(ctx, &registryv1.PreviewDatasetVersionRequest{DatasetId: made.GetId(), Version: "v1"})
	require.True(t, fault.Is(err, fault.Refused) && fault.HasCode(err, "dataset_preview"), "%v", err)
}

func TestArchiveDatasetVersion_notBoundAndKeepsName(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("sums", "team")
	ctx, _ := as(t, "usr_1", "")
	d.push(s, "v1", "one")
	d.clock.Advance(time.Minute)
	d.push(s, "v2", "two")
	for range 2 {
		v, err := d.ArchiveDatasetVersion(ctx, &registryv1.ArchiveDatasetVersionRequest{DatasetId: s.GetId(), Version: "v2"})
		require.NoError(t, err)
		require.Equal(t, "archived", v.GetState())
		require.True(t, d.clock.Now().Equal(v.GetArchivedAt().AsTime()))
	}
	require.Equal(t, "dataset.version.archive", d.audited(s)[0])
	require.Len(t, d.audited(s), 6, "a repeated call changes nothing")
	got, err := d.GetDataset(ctx, &registryv1.GetDatasetRequest{DatasetId: s.GetId()})
	require.NoError(t, err)
	require.Equal(t, "v1", got.GetLatestVersion())
	for version, bound := range map[string]bool{"v1": true, "latest": true, "v2": false} {
		_, v, err := d.Store.Resolve(t.Context(), d.Pool, access.ServiceScope(), ref.Ref{Kind: ref.Dataset, Project: "team", Name: "sums", Version: version})
		require.NoError(t, err)
		require.Equal(t, bound, v != nil, version)
	}
	_, err = d.commit("usr_1", s, "v2")
	require.True(t, fault.Is(err, fault.Conflict), "an archived version cannot be committed: %v", err)
	_, err = d.begin("usr_1", s, "v2", of("a", "other"))
	require.True(t, fault.HasCode(err, "dataset_version_exists"), "%v", err)
	files, err := d.ListDatasetFiles(ctx, &registryv1.ListDatasetFilesRequest{DatasetId: s.GetId(), Version: "v2"})
	require.NoError(t, err)
	require.Len(t, files.GetFiles(), 1, "the files of an archived version remain readable")
	_, err = d.begin("usr_1", s, "v3", of("a", "three"))
	require.NoError(t, err)
	_, err = d.ArchiveDatasetVersion(ctx, &registryv1.ArchiveDatasetVersionRequest{DatasetId: s.GetId(), Version: "v3"})
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	_, err = d.ArchiveDatasetVersion(ctx, &registryv1.ArchiveDatasetVersionRequest{DatasetId: s.GetId(), Version: "v1"})
	require.NoError(t, err)
	got, err = d.GetDataset(ctx, &registryv1.GetDatasetRequest{DatasetId: s.GetId()})
	require.NoError(t, err)
	require.Nil(t, got.LatestVersion)
}

func TestInfer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ data, want string }{
		"empty":        {"", ""},
		"list":         {"[1]\n", ""},
		"mixed":        {"{}\n1\n", ""},
		"nulls":        {`{"a":null}` + "\n" + `{"a":1,"b":true}`, `{"type":"object","properties":{"a":{"type":["integer","null"]},"b":{"type":["boolean"]}},"required":["a"]}`},
		"object":       {`{"a":{"secret":1},"b":-1e3}`, `{"type":"object","properties":{"a":{"type":["object"]},"b":{"type":["number"]}},"required":["a","b"]}`},
		"keys as data": {wide(300), ""},
		"byte order mark": {
			"\ufeff" + `{"a":1}` + "\n" + `{"a":2}` + "\n",
			`{"type":"object","properties":{"a":{"type":["integer"]}},"required":["a"]}`,
		},
		"byte order mark alone":     {"\ufeff", ""},
		"byte order mark elsewhere": {"{}\n\ufeff{}\n", ""},
	} {
		got := dataset.Infer(c.data)
		if c.want == "" {
			require.Empty(t, got, name)
			continue
		}
		require.JSONEq(t, c.want, got, name)
	}
}

// wide returns a row with n members. Their names differ, as in an object whose keys are data.
func wide(n int) string {
	row := map[string]int{}
	for i := range n {
		row[fmt.Sprint("user-", i)] = i
	}
	raw, _ := json.Marshal(row)
	return string(raw)
}

// A digest can leak, for example through a job that reads the records. Knowing the digest must not be enough to include
// protected bytes in another dataset, protected or not.
func TestProtectedDataset_digestAloneGivesNoAccess(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	secret := d.protect("secret")
	d.push(secret, "v1", planted)
	for _, other := range []*registryv1.Dataset{d.make("plain", "team"), d.protect("secret-too")} {
		made, err := d.begin("usr_1", other, "v1", of("a", planted))
		require.NoError(t, err)
		require.Len(t, made.GetUploads(), 1, "the caller does not learn that the bytes exist")
		_, err = d.commit("usr_1", other, "v1")
		require.True(t, fault.HasCode(err, "object_missing"), "%v", err)
	}
	again, err := d.begin("usr_1", secret, "v2", of("b", planted))
	require.NoError(t, err)
	require.Empty(t, again.GetUploads(), "a dataset reuses its own bytes")
	_, err = d.commit("usr_1", secret, "v2")
	require.NoError(t, err)
}
