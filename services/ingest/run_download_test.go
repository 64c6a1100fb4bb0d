package ingest_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// files reads all pages of the files of a run, by the links to the next ones.
func (t *training) files(name string, limit int32) (all []*ingestv1.RunDownload, pages int) {
	h := t.r.h
	h.t.Helper()
	in := &ingestv1.ListRunDownloadsRequest{Id: name, Limit: &limit}
	for {
		var header metadata.MD
		out, err := t.r.public.ListRunDownloads(h.t.Context(), in, grpc.Header(&header))
		require.NoError(h.t, err)
		all, pages = append(all, out.GetFiles()...), pages+1
		next := nextOf(header)
		if next == "" {
			return all, pages
		}
		require.Equal(h.t, all[len(all)-1].GetArtifactId(), next)
		in.After = &next
	}
}

// get returns a part of the file behind a signed URL.
func (h *harness) get(signed, bytes string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, signed, nil)
	req.Header.Set("Range", "bytes="+bytes)
	rec := httptest.NewRecorder()
	h.blobs.Handler().ServeHTTP(rec, req)
	return rec
}

func TestListRunDownloads_wholeRun(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	run, other := r.train(), r.train()
	content := map[string]string{} // by path in the list
	register := func(kind, name, step, content string) string {
		uri := run.upload(kind, name, []byte(content))
		return run.post("artifact", "", fmt.Sprintf(`"kind":%q,"path":%q,"format":"gguf","step":%s`, kind, uri, step))["id"].(string)
	}
	for n := range 7 {
		name := fmt.Sprintf("out/shard %d/重み.gguf", n)
		content["checkpoint-5/"+name] = strings.Repeat(name, 50)
		register("checkpoint", name, "5", strings.Repeat(name, 50))
	}
	register("merged_model", "m.tar", "null", "a folder")
	content["merged_model/m.tar"] = "a folder"
	again := register("checkpoint", "out/Shard 0/重み.gguf", "5", "of another attempt")
	content["checkpoint-5/"+again+"/重み.gguf"] = "of another attempt"
	odd := register("checkpoint", `c:\out\..\m.gguf`, "6", "from elsewhere")
	content["checkpoint-6/"+odd+"/m.gguf"] = "from elsewhere"
	onHost := run.post("artifact", "", `"kind":"eval_report","path":"/data/r.json","format":"json","size_bytes":9`)["id"].(string)
	other.post("artifact", "", `"kind":"eval_report","path":"/data/r.json","format":"json"`)

	for name, limit := range map[string]int32{run.run: 3, run.job: 500} {
		all, pages := run.files(name, limit)
		require.Equal(t, (len(content)+1+int(limit)-1)/int(limit), pages)
		got := map[string]string{}
		for _, f := range all[:len(all)-1] {
			whole := []byte(content[f.GetPath()])
			require.Equal(t, []any{"GET", int64(len(whole)), fmt.Sprintf("%x", sha256.Sum256(whole))}, []any{f.GetMethod(), f.GetSizeBytes(), f.GetSha256()}, f.GetPath())
			require.WithinRange(t, f.GetExpiresAt().AsTime(), h.clock.Now(), h.clock.Now().Add(blob.MaxExpires+time.Second))
			first, rest := h.get(f.GetUrl(), "0-2"), h.get(f.GetUrl(), "3-")
			require.Equal(t, []int{206, 206}, []int{first.Code, rest.Code})
			got[f.GetPath()] = first.Body.String() + rest.Body.String()
		}
		require.Equal(t, content, got, "the ranges of the links are the files")
		last := all[len(all)-1]
		require.Equal(t, []any{onHost, "eval_report/" + onHost + "/r.json", int64(9), "artifact_not_stored"},
			[]any{last.GetArtifactId(), last.GetPath(), last.GetSizeBytes(), last.GetReason()})
		require.Nil(t, last.Url)
		require.Nil(t, last.Sha256)
		require.Nil(t, last.GetExpiresAt())
	}
	byOffset, err := r.public.ListRunDownloads(t.Context(), &ingestv1.ListRunDownloadsRequest{Id: run.run, Offset: new(int32(10))})
	require.NoError(t, err)
	require.Len(t, byOffset.GetFiles(), 1)
	require.Equal(t, onHost, byOffset.GetFiles()[0].GetArtifactId())
	_, err = r.public.ListRunDownloads(t.Context(), &ingestv1.ListRunDownloadsRequest{Id: run.run, After: new("art_x")})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = r.public.ListRunDownloads(as(t.Context(), "usr_other"), &ingestv1.ListRunDownloadsRequest{Id: run.run})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

// A protected run is refused as a whole, also on pages that have none of its artifacts.
func TestListRunDownloads_ofProtectedRunRefusedOnce(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.post("artifact", "", `"kind":"eval_report","path":"/data/open.json","format":"json"`)
	run.protect()
	run.again() // a token whose grant is not cached
	for n := range 3 {
		uri := run.upload("checkpoint", fmt.Sprint(n), fmt.Appendf(nil, "secret %d", n))
		run.post("artifact", "", fmt.Sprintf(`"kind":"checkpoint","path":%q,"format":"gguf","step":%d`, uri, n))
	}
	for n, in := range []*ingestv1.ListRunDownloadsRequest{{Id: run.run}, {Id: run.job, Limit: new(int32(1))}, {Id: run.run, Offset: new(int32(100))}} {
		out, err := r.public.ListRunDownloads(t.Context(), in)
		require.True(t, fault.Is(err, fault.Forbidden) && fault.HasCode(err, "dataset_protected"), "%v", err)
		require.Empty(t, out.GetFiles())
		require.Equal(t, n+1, count(t, r.h, "audit"), "each refusal is audited once")
	}
	var targets int
	require.NoError(t, r.h.db.Pool(ingest.Name).QueryRow(t.Context(),
		`SELECT count(*) FROM audit WHERE action = 'artifact.access.refuse' AND target_kind = 'run' AND target_id = $1`, run.run).Scan(&targets))
	require.Equal(t, 3, targets)
}
