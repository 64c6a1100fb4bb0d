package httpapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

func TestHandler_responsesHaveContractFields(t *testing.T) {
	t.Parallel()
	p := newHarness(t)
	sum := strings.Repeat("ab", 32)
	point := `{"key":"a","step":1,"value":1,"ts":"2026-11-21T09:00:00Z"}`
	cases := []struct{ method, path, body, want string }{
		{"POST", "metrics", `"points":[` + point + `,` + point + `]`, `{"ok":true,"inserted":2}`},
		{"POST", "metrics", `"points":[]`, `{"ok":true,"inserted":0}`},
		{"POST", "logs", `"chunks":["a"],"eof":true`, `{"ok":true}`},
		{"POST", "hparams", `"params":{}`, `{"ok":true}`},
		{"POST", "benchmark", `"name":"n","metric":"m","value":1`, `{"ok":true}`},
		{"POST", "artifact", `"kind":"checkpoint","path":"/p","format":"f","size_bytes":3`, `{"ok":true,"id":"","run_id":"run_1","attempt":0,"kind":"checkpoint",
			"format":"f","step":null,"path":"/p","name":"/p","size_bytes":3,"sha256":null,"created_at":"0001-01-01T00:00:00.000000+00:00"}`},
		{"POST", "artifact", `"kind":"checkpoint","path":"/p","format":"f","step":-7`, `{"ok":true,"id":"","run_id":"run_1","attempt":0,"kind":"checkpoint",
			"format":"f","step":-7,"path":"/p","name":"/p","size_bytes":0,"sha256":null,"created_at":"0001-01-01T00:00:00.000000+00:00"}`},
		{"GET", "watermark?run_id=run_1", "", `{"logs":{"w":3}}`},
		{"GET", "artifact/upload-url?run_id=run_1&kind=checkpoint&path=m.gguf&size_bytes=4&sha256=" + sum, "", `{"method":"PUT","headers":{},
			"url":"http://blobs/runs/run_1/2/checkpoint/` + sum + `/m.gguf","object_uri":"blob://runs/run_1/2/checkpoint/` + sum + `/m.gguf",
			"expires_at":"2026-11-21T09:00:00.000000+00:00"}`},
	}
	for _, c := range cases {
		body := ""
		if c.method == http.MethodPost {
			body = `{"run_id":"run_1",` + c.body + `}`
		}
		rec := p.send(c.method, c.path, body)
		require.Equal(t, http.StatusOK, rec.Code, "%s: %s", c.path, rec.Body)
		require.JSONEq(t, c.want, rec.Body.String(), c.path)
		require.Equal(t, "application/json", rec.Header().Get("Content-Type"))
		require.Equal(t, "nosniff", rec.Header().Get("X-Content-Type-Options"))
	}
}

func TestHandler_keepsValidRequestID(t *testing.T) {
	t.Parallel()
	p := newHarness(t)
	good := p.handler.IDs.New(id.Request)
	require.Equal(t, good, p.send(http.MethodGet, "watermark?run_id=run_1", "", header(fault.HeaderRequestID, good)).Header().Get(fault.HeaderRequestID))
	require.Equal(t, good, p.send(http.MethodGet, "nothing", "", header(fault.HeaderRequestID, good)).Header().Get(fault.HeaderRequestID))
	for _, bad := range []string{"", "x", good + "0", "run_" + good[4:], "<script>", strings.Repeat("a", 5000)} {
		got := p.send(http.MethodGet, "nothing", "", header(fault.HeaderRequestID, bad)).Header().Get(fault.HeaderRequestID)
		require.NoError(t, id.Check(id.Request, got), "the request id %q was replaced by the invalid id %q", bad, got)
		require.NotEqual(t, bad, got)
	}
}

func TestHandler_acceptsBodyOfUnknownLength(t *testing.T) {
	t.Parallel()
	p := newHarness(t)
	for name, body := range map[string]io.Reader{
		"in one read": strings.NewReader(`{"run_id":"run_1","chunks":["a"]}`), "byte by byte": oneByteReader{strings.NewReader(`{"run_id":"run_1","chunks":["a"]}`)},
	} {
		rec := p.send(http.MethodPost, "logs", "", func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(body), -1 })
		require.Equal(t, http.StatusOK, rec.Code, "%s: %s", name, rec.Body)
	}
	require.Len(t, p.items, 2)
	require.Equal(t, http.StatusUnprocessableEntity, p.send(http.MethodPost, "logs", "").Code, "an empty body is not JSON")
}

// oneByteReader is a reader that returns at most one byte per read.
type oneByteReader struct{ io.Reader }

func (s oneByteReader) Read(b []byte) (int, error) { return s.Reader.Read(b[:1]) }

func TestHandler_acceptsBodyOfMaximumSize(t *testing.T) {
	t.Parallel()
	p := newHarness(t)
	for path, c := range map[string]struct {
		rest string
		most int
	}{
		"logs": {`"chunks":[]`, 1 << 20}, "lifecycle": {`"event":"running","ts":"2026-11-21T09:00:00Z"`, 1 << 20},
		"environment": {`"python":"3"`, 1 << 20}, "environment/nodes": {`"nodes":[]`, 1 << 20},
		"artifact": {`"kind":"checkpoint","path":"p","format":"f"`, 1 << 20}, "metrics": {`"points":[]`, 8 << 20},
		"validation": {`"step":1,"samples":[]`, 8 << 20}, "hparams": {`"params":{}`, 8 << 20}, "hardware": {`"points":[]`, 8 << 20},
		"benchmark": {`"name":"n","rollouts":[]`, 8 << 20},
	} {
		body := func(size int) string {
			whole := `{"run_id":"run_1",` + c.rest + `}`
			return whole + strings.Repeat(" ", size-len(whole))
		}
		rec := p.send(http.MethodPost, path, body(c.most))
		require.Equal(t, http.StatusOK, rec.Code, "%s: %s", path, rec.Body)
		rec = p.send(http.MethodPost, path, body(c.most+1))
		require.Equal(t, http.StatusRequestEntityTooLarge, rec.Code, path)
		require.Contains(t, rec.Body.String(), fmt.Sprint(c.most), path)
		rec = p.send(http.MethodPost, path, body(c.most+1), func(r *http.Request) { r.ContentLength = -1 })
		require.Equal(t, http.StatusRequestEntityTooLarge, rec.Code, path)
	}
	require.Zero(t, p.handler.bodies.total)
}

func TestHandler_buffersAreNotShared(t *testing.T) {
	t.Parallel()
	p := newHarness(t)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			points := make([]string, 1+i%5)
			for n := range points {
				points[n] = fmt.Sprintf(`{"key":"k%d","step":%d,"value":1,"ts":"2026-11-21T09:00:00Z"}`, i, n)
			}
			rec := p.send(http.MethodPost, "metrics", `{"run_id":"run_1","points":[`+strings.Join(points, ",")+`]}`)
			if want := fmt.Sprintf(`"inserted":%d}`, len(points)); !strings.Contains(rec.Body.String(), want) {
				t.Errorf("%d: %s", i, rec.Body)
			}
			if rec = p.send(http.MethodPost, "metrics", `{"run_id":"run_1","points":[{}]}`); rec.Code != http.StatusUnprocessableEntity {
				t.Errorf("%d: %s", i, rec.Body)
			}
		})
	}
	all.Wait()
	require.Len(t, p.items, 64)
}

func TestHandler_matchesRoutesExactly(t *testing.T) {
	t.Parallel()
	p := newHarness(t)
	for path, want := range map[string]int{
		"/api/ingest/logs": 422, "/api/ingest/logs/": 404, "/api/ingest//logs": 404, "/api/ingest/LOGS": 404, "/api/ingest/": 404, "/api/ingest": 404,
		"/ingest/logs": 404, "/api/ingest/logs%2f": 404, "/api/ingest/logs?a=b": 422, "/api/ingest/environment/nodes": 422, "/api/ingest/environment/node": 404,
		"/api/ingest/artifact/upload-url": 405,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader("{}"))
		r.Header.Set("X-Service-Token", p.token)
		rec := httptest.NewRecorder()
		p.handler.ServeHTTP(rec, r)
		require.Equal(t, want, rec.Code, "%s: %s", path, rec.Body)
		var body struct{ Detail any }
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &body))
		require.NotEmpty(t, body.Detail, path)
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodHead, http.MethodOptions} {
		require.Equal(t, http.StatusMethodNotAllowed, p.send(method, "logs", "").Code, method)
	}
}
