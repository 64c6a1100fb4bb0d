package ingest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// requestAs returns a request for the log of a run, as the gateway sends it for a user.
func (t *training) requestAs(user, rest string) *http.Request {
	h := t.r.h
	ctx := signed{h: h, key: t.r.key}.sign(as(h.t.Context(), user))
	r := httptest.NewRequest(http.MethodGet, "/api/runs/"+rest, nil)
	r.Header.Set("X-Service-Caller", authn.Token(ctx, h.clock.Now()))
	return r
}

func TestLogDownload(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.post("logs", "", `"chunks":["one\ntwo\n"],"rank":3`)
	a := r.serve(run.requestAs("usr_owner", run.run+"/logs/download"))
	require.Equal(t, []any{http.StatusOK, "one\ntwo\n"}, []any{a.status, string(a.body)})
	require.Equal(t, `attachment; filename="`+run.run+`.log"`, a.header.Get("Content-Disposition"))
	require.Equal(t, "text/plain; charset=utf-8", a.header.Get("Content-Type"))
	require.Equal(t, "private, no-store", a.header.Get("Cache-Control"))
	a = r.serve(run.requestAs("usr_owner", run.run+"/logs/download?labels=true&rank=3&after=1&attempt=1"))
	require.Regexp(t, `^2\t[^\t]+Z\t1\t3\ttwo\n$`, string(a.body))
	empty := r.serve(run.requestAs("usr_owner", r.train().run+"/logs/download"))
	require.Equal(t, []any{http.StatusOK, ""}, []any{empty.status, string(empty.body)})

	nobody := run.requestAs("usr_owner", run.run+"/logs/download")
	nobody.Header.Del("X-Service-Caller")
	require.Equal(t, http.StatusUnauthorized, r.serve(nobody).status)
	for rest, status := range map[string]int{
		"run_x/logs/download":                                                                      http.StatusUnprocessableEntity,
		"run_01k00000000000000000000001/logs/download":                                             http.StatusNotFound,
		run.run + "/logs/download?rank=-1":                                                         http.StatusUnprocessableEntity,
		run.run + "/logs/download?attempt=x":                                                       http.StatusUnprocessableEntity,
		run.run + "/logs/download?since=yesterday":                                                 http.StatusUnprocessableEntity,
		run.run + "/logs/download?since=2026-11-26+21:00:00":                                       http.StatusUnprocessableEntity, // no offset
		run.run + "/logs/download?since=2000-11-26+21:00:00-0330&until=2000-11-26T21:00:00%2B0000": http.StatusOK,
		run.run + "/logs/download?labels=yes":                                                      http.StatusUnprocessableEntity,
		run.run + "/logs/download?limit=5":                                                         http.StatusUnprocessableEntity,
		run.run + "/logs/download?after=9007199254740992":                                          http.StatusUnprocessableEntity,
		run.run + "/logs/download?until=2026-11-21T00:00:00":                                       http.StatusUnprocessableEntity,
	} {
		require.Equal(t, status, r.serve(run.requestAs("usr_owner", rest)).status, rest)
	}
}

// A download that fails after its first bytes aborts the connection: the client must not take the part for the whole.
func TestLogDownload_abortsRatherThanCut(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	run := r.train()
	run.post("logs", "", fmt.Sprintf(`"chunks":[%q]`, strings.Repeat(strings.Repeat("x", 99)+"\n", 3000)))
	pool := h.db.Pool(ingest.Name)
	_, err := pool.Exec(t.Context(), `UPDATE run SET line_seq = line_seq + 1 WHERE id = $1`, run.run) // a line that is gone
	require.NoError(t, err)
	server := httptest.NewServer(r.handler)
	defer server.Close()
	sent := run.requestAs("usr_owner", run.run+"/logs/download")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+sent.URL.Path, nil)
	require.NoError(t, err)
	req.Header = sent.Header
	resp, err := server.Client().Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	_, err = io.Copy(io.Discard, resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, resp.Body.Close())
}
