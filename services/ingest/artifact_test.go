package ingest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	commonv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/v1"
	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// contractTime is a regular expression that matches every time in a response.
const contractTime = `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$`

// upload stores content through an upload URL and returns the object's URI.
func (t *training) upload(kind, path string, content []byte) string {
	h := t.r.h
	sum := sha256.Sum256(content)
	q := url.Values{
		"run_id": {t.run}, "kind": {kind}, "path": {path},
		"size_bytes": {fmt.Sprint(len(content))}, "sha256": {hex.EncodeToString(sum[:])},
	}
	a := t.call(http.MethodGet, "artifact/upload-url?"+q.Encode(), "", "")
	require.Equal(h.t, http.StatusOK, a.status, string(a.body))
	ticket := a.json(h.t)
	require.Equal(h.t, http.MethodPut, ticket["method"])
	require.Regexp(h.t, contractTime, ticket["expires_at"])
	req := httptest.NewRequest(http.MethodPut, ticket["url"].(string), bytes.NewReader(content))
	for k, v := range ticket["headers"].(map[string]any) {
		req.Header.Set(k, v.(string))
	}
	rec := httptest.NewRecorder()
	h.blobs.Handler().ServeHTTP(rec, req)
	require.Less(h.t, rec.Code, 300, rec.Body.String())
	return ticket["object_uri"].(string)
}

func TestArtifactHandshake(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	uri := run.upload("checkpoint", "out/../über model.tar", []byte("weights"))
	sum := sha256.Sum256([]byte("weights"))
	require.Equal(t, fmt.Sprintf("blob://runs/%s/1/checkpoint/%x/_ber_model.tar", run.run, sum), uri)

	body := fmt.Sprintf(`"kind":"checkpoint","path":%q,"format":"safetensors","step":7,"size_bytes":7`, uri)
	first := run.post("artifact", "w:1", body)
	require.Regexp(t, contractTime, first["created_at"])
	require.Equal(t, first["id"], run.post("artifact", "w:1", body)["id"], "a repeated request returns the same artifact")
	require.Equal(t, first["id"], run.post("artifact", "w:2", body)["id"], "the same artifact under another number is not registered twice")
	other := run.post("artifact", "", strings.Replace(body, `"step":7`, `"step":null`, 1))
	require.NotEqual(t, first["id"], other["id"])
	require.Equal(t, other["id"], run.post("artifact", "", strings.Replace(body, `"step":7,`, "", 1))["id"], "a missing step is treated like a step of null")

	list, err := r.public.ListArtifacts(t.Context(), &ingestv1.ListArtifactsRequest{Id: run.run})
	require.NoError(t, err)
	require.Len(t, list.GetArtifacts(), 2)
	got, err := r.registry.GetArtifact(t.Context(), &ingestpeerv1.GetArtifactRequest{RunId: run.run, ArtifactId: first["id"].(string)})
	require.NoError(t, err)
	require.Equal(t, uri, got.GetUri())
	require.True(t, got.GetPacked())
	require.Equal(t, hex.EncodeToString(sum[:]), got.GetArtifact().GetSha256())
	require.EqualValues(t, 7, got.GetArtifact().GetSizeBytes())
	_, err = r.registry.GetArtifact(t.Context(), &ingestpeerv1.GetArtifactRequest{RunId: r.train().run, ArtifactId: first["id"].(string)})
	require.True(t, fault.Is(err, fault.Absent), "an artifact is found only under its own run")
}

func TestListArtifactDownloads(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run, sealed := r.train(), r.train()
	links := func(run *training, id any, offset int32) ([]*commonv1.Download, error) {
		out, err := r.public.ListArtifactDownloads(t.Context(), &ingestv1.ListArtifactDownloadsRequest{Id: run.run, ArtifactId: id.(string), Offset: &offset})
		return out.GetFiles(), err
	}
	register := func(run *training, path string) any {
		return run.post("artifact", "", fmt.Sprintf(`"kind":"checkpoint","path":%q,"format":"gguf"`, path))["id"]
	}
	uploaded := register(run, run.upload("checkpoint", "out/m.gguf", []byte("weights")))
	got, err := links(run, uploaded, 0)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, []any{"m.gguf", int64(7), fmt.Sprintf("%x", sha256.Sum256([]byte("weights")))}, []any{got[0].GetPath(), got[0].GetSizeBytes(), got[0].GetSha256()})
	require.Equal(t, r.h.clock.Now().Add(blob.MaxExpires).Truncate(time.Second).UTC(), got[0].GetExpiresAt().AsTime())
	rec := httptest.NewRecorder()
	r.h.blobs.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, got[0].GetUrl(), nil))
	require.Equal(t, "weights", rec.Body.String())
	got, err = links(run, uploaded, 1)
	require.NoError(t, err)
	require.Empty(t, got)

	_, err = links(run, register(run, "/data/m.gguf"), 0)
	require.True(t, fault.HasCode(err, "artifact_not_stored"), "%v", err)
	_, err = links(r.train(), uploaded, 0)
	require.True(t, fault.Is(err, fault.Absent), "an artifact is found only under its own run: %v", err)
	_, err = links(run, "art_x", 0)
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	sealed.protect()
	_, err = links(sealed, register(sealed, sealed.upload("checkpoint", "m.gguf", []byte("secret"))), 0)
	require.True(t, fault.Is(err, fault.Forbidden) && fault.HasCode(err, "dataset_protected"), "%v", err)
	require.Equal(t, 1, count(t, r.h, "audit"), "the refusal is audited")
}

func TestRegisterArtifact_foreignPathsRejected(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run, other := r.train(), r.train()
	mine := run.upload("checkpoint", "m.gguf", []byte("mine"))
	theirs := other.upload("checkpoint", "m.gguf", []byte("theirs"))
	key := strings.TrimPrefix(mine, "blob://")
	paths := []string{
		theirs, strings.Replace(theirs, other.run, run.run, 1), "blob://" + strings.Replace(key, run.run, run.run+"0", 1),
		"blob://runs/" + run.run + "/../" + other.run + strings.SplitN(theirs, other.run, 2)[1], "blob:///" + key, mine + "/", mine + "/x", mine + "?x", mine + "%00",
		"s3://bucket/" + key, "gs://" + key, "file:///etc/passwd", "file:/etc/passwd", "http://127.0.0.1/" + key, "BLOB://" + key,
		"blob://projects/prj_1/blobs/" + strings.Repeat("a", 64), "../../etc/passwd", "a/../../b", `a\..\..\b`, "blob:" + key,
		strings.Replace(mine, "/checkpoint/", "/hf_export/", 1), "https:evil", "C:" + key,
	}
	for _, path := range paths {
		a := run.call(http.MethodPost, "artifact", "", run.body(fmt.Sprintf(`"kind":"checkpoint","path":%q,"format":"gguf","step":1`, path)))
		require.Equal(t, http.StatusBadRequest, a.status, "%s: %s", path, a.body)
	}
	a := run.call(http.MethodPost, "artifact", "", run.body(fmt.Sprintf(`"kind":"checkpoint","path":%q,"format":"gguf","size_bytes":5`, mine)))
	require.Equal(t, "size_mismatch", a.json(t)["code"])
	require.Zero(t, count(t, r.h, "artifact"))

	// A local path is only recorded. It is accepted if the run executes on the host, and rejected if it executes in a
	// container.
	local := `"kind":"checkpoint","path":"/data/out/m.gguf","format":"gguf","size_bytes":5`
	note := run.post("artifact", "", local)
	require.Contains(t, note, "sha256")
	require.Nil(t, note["sha256"], "a missing digest is null")
	got, err := r.registry.GetArtifact(t.Context(), &ingestpeerv1.GetArtifactRequest{RunId: run.run, ArtifactId: note["id"].(string)})
	require.NoError(t, err)
	require.Empty(t, got.GetUri())
	require.Nil(t, got.GetArtifact().Sha256)
	contained := r.train()
	contained.grant.Container = true
	require.Equal(t, http.StatusBadRequest, contained.call(http.MethodPost, "artifact", "", contained.body(local)).status)

	huge := "artifact/upload-url?kind=checkpoint&path=x&size_bytes=2000000&sha256=" + strings.Repeat("a", 64) + "&run_id=" + run.run
	require.Equal(t, http.StatusRequestEntityTooLarge, run.call(http.MethodGet, huge, "", "").status)
}

// The key of an object has only ASCII characters, but the artifact keeps the path as it was given.
func TestArtifact_keepsGivenPath(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	given := []string{"モデル/重み.safetensors", "データ/数字.safetensors", "out/a.bin", "other/a.bin", "a b+c.tar", `c:\out\m.gguf`, "モデル/重み.safetensors"}
	ids := map[string]string{}
	for _, path := range given {
		uri := run.upload("checkpoint", path, []byte("weights"))
		got := run.post("artifact", "", fmt.Sprintf(`"kind":"checkpoint","path":%q,"format":"safetensors","step":1`, uri))
		require.Equal(t, path, got["name"], "the response has the path as given")
		require.Equal(t, uri, got["path"])
		if before, ok := ids[path]; ok {
			require.Equal(t, before, got["id"], "the same output is registered once")
		}
		ids[path] = got["id"].(string)
	}
	require.Len(t, ids, 6)
	list, err := r.public.ListArtifacts(t.Context(), &ingestv1.ListArtifactsRequest{Id: run.run})
	require.NoError(t, err)
	var names, files []string
	for _, a := range list.GetArtifacts() {
		names = append(names, a.GetName())
		d, err := r.public.ListArtifactDownloads(t.Context(), &ingestv1.ListArtifactDownloadsRequest{Id: run.run, ArtifactId: a.GetId()})
		require.NoError(t, err)
		files = append(files, d.GetFiles()[0].GetPath())
	}
	require.Equal(t, given[:6], names)
	require.Equal(t, []string{"重み.safetensors", "数字.safetensors", "a.bin", "a.bin", "a b+c.tar", "m.gguf"}, files)

	local := run.post("artifact", "", `"kind":"eval_report","path":"/data/報告/r.json","format":"json"`)
	require.Equal(t, "/data/報告/r.json", local["name"])
	bad := run.call(http.MethodGet, "artifact/upload-url?kind=checkpoint&path=%ff&size_bytes=1&sha256="+strings.Repeat("a", 64)+"&run_id="+run.run, "", "")
	require.Equal(t, []string{"query.path value_error"}, problems(t, bad))
}

// An object that an earlier version held or registered has no path.
func TestArtifact_ofEarlierVersionHasNameOfObject(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	uri := run.upload("checkpoint", "out/m.gguf", []byte("weights"))
	_, err := r.h.db.Pool(ingest.Name).Exec(t.Context(), `UPDATE object_hold SET name = NULL`)
	require.NoError(t, err)
	a := run.post("artifact", "", fmt.Sprintf(`"kind":"checkpoint","path":%q,"format":"gguf"`, uri))
	require.Equal(t, "m.gguf", a["name"])
}
