package e2eflow

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPushDataset(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	sum := sha256.Sum256([]byte("rows"))
	a.respond("GET /api/datasets", ok(`[{"id":"dst_other","name":"walk-on"}]`))
	a.respond("POST /api/datasets", ok(`{"id":"dst_1","name":"walk"}`))
	a.respond("POST /api/datasets/dst_1/versions", ok(`{"uploads":[{"url":"`+a.URL+`/put","method":"PUT","headers":{"X-Signed":"yes"}}]}`))
	a.respond("POST /api/datasets/dst_1/versions/v1/commit", response{status: 502}, ok(`{"state":"ready","ref":"ds/default/walk@v1"}`))
	var signed, body string
	tries := 0
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /put", func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		signed, body = r.Header.Get("X-Signed"), string(raw)
		if tries++; tries == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	inner := a.Config.Handler
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/put") {
			mux.ServeHTTP(w, r)
			return
		}
		inner.ServeHTTP(w, r)
	})
	d, err := a.loop(long).PushDataset(t.Context(), "v1", "additions.jsonl", []byte("rows"))
	require.NoError(t, err)
	require.Equal(t, Dataset{ID: "dst_1", Ref: "ds/default/walk@v1"}, d)
	require.Equal(t, "yes", signed)
	require.Equal(t, "rows", body, "the second attempt sends the whole body again")
	var sent map[string]any
	for _, one := range a.requests() {
		if strings.HasSuffix(one.path, "/versions") {
			sent = one.body
		}
	}
	file, _ := sent["files"].([]any)[0].(map[string]any)
	require.Equal(t, map[string]any{"path": "additions.jsonl", "size_bytes": 4.0, "sha256": hex.EncodeToString(sum[:])}, file)
}

func TestLoop_PushDataset_versionNotReady(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("GET /api/datasets", ok(`[{"id":"dst_1","name":"walk"}]`))
	a.respond("POST /api/datasets/dst_1/versions", ok(`{"uploads":[]}`))
	a.respond("POST /api/datasets/dst_1/versions/v1/commit", ok(`{"state":"failed"}`))
	_, err := a.loop(long).PushDataset(t.Context(), "v1", "x", nil)
	require.ErrorContains(t, err, "the version is failed, not ready")
}

func TestLoop_PushDataset_versionExists(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.respond("GET /api/datasets", ok(`[{"id":"dst_1","name":"walk"}]`))
	a.respond("POST /api/datasets/dst_1/versions", response{status: 409, body: `{"detail":"version v1 exists"}`})
	_, err := a.loop(long).PushDataset(t.Context(), "v1", "x", nil)
	require.ErrorContains(t, err, "409: version v1 exists")
}
