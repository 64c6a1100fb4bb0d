package ingest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/ingest"
)

func TestMetricExport(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.post("metrics", "", `"points":[{"key":"b","step":2,"value":1.5,"ts":"2026-11-21T03:00:00Z"},{"key":"b","step":1,"value":"NaN","ts":"2026-11-21T03:00:00Z"},{"key":"=a","step":1,"value":-1,"ts":"2026-11-21T03:00:00Z"}]`)
	a := r.serve(run.requestAs("usr_owner", run.run+"/metrics/export"))
	require.Equal(t, http.StatusOK, a.status, string(a.body))
	require.Regexp(t, `^key,step,value,time,attempt\n'=a,1,-1,[^,]+Z,1\nb,1,NaN,[^,]+Z,1\nb,2,1.5,[^,]+Z,1\n$`, string(a.body))
	require.Equal(t, `attachment; filename="`+run.run+`.csv"`, a.header.Get("Content-Disposition"))
	require.Equal(t, "text/csv; charset=utf-8", a.header.Get("Content-Type"))
	a = r.serve(run.requestAs("usr_owner", run.run+"/metrics/export?format=csv&keys=b&keys=c"))
	require.NotContains(t, string(a.body), "=a")
	a = r.serve(run.requestAs("usr_owner", run.run+"/metrics/export?format=parquet"))
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, "PAR1PAR1", string(a.body[:4])+string(a.body[len(a.body)-4:]))
	require.Equal(t, `attachment; filename="`+run.run+`.parquet"`, a.header.Get("Content-Disposition"))

	nobody := run.requestAs("usr_owner", run.run+"/metrics/export")
	nobody.Header.Del("X-Service-Caller")
	require.Equal(t, http.StatusUnauthorized, r.serve(nobody).status)
	for rest, status := range map[string]int{
		"run_x/metrics/export":                                        http.StatusUnprocessableEntity,
		"run_01k00000000000000000000001/metrics/export":               http.StatusNotFound,
		run.run + "/metrics/export?format=xlsx":                       http.StatusUnprocessableEntity,
		run.run + "/metrics/export?limit=5":                           http.StatusUnprocessableEntity,
		run.run + "/metrics/export?" + strings.Repeat("keys=a&", 101): http.StatusUnprocessableEntity,
	} {
		require.Equal(t, status, r.serve(run.requestAs("usr_owner", rest)).status, rest)
	}
}

// An export that fails after many points gets an error response: the client must not take a part for the whole.
func TestMetricExport_failsRatherThanCut(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	run := r.train()
	var points []string
	for step := range 3000 {
		points = append(points, fmt.Sprintf(`{"key":"a","step":%d,"value":1,"ts":"2026-11-21T03:00:00Z"},{"key":"b","step":%d,"value":1,"ts":"2026-11-21T03:00:00Z"}`, step, step))
	}
	run.post("metrics", "", `"points":[`+strings.Join(points, ",")+`]`)
	server := httptest.NewServer(r.handler)
	defer server.Close()
	read := func(format string) error {
		sent := run.requestAs("usr_owner", run.run+"/metrics/export")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+sent.URL.Path+"?format="+format, nil)
		require.NoError(t, err)
		req.Header = sent.Header
		resp, err := server.Client().Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, resp.Body.Close())
		if err == nil && resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return err
	}
	require.NoError(t, read("csv"))
	require.NoError(t, read("parquet"))
	// A block of the second key that cannot be read.
	_, err := h.db.Pool(ingest.Name).Exec(t.Context(), `INSERT INTO metric_segment (run_id, first_seq, last_seq, rows) VALUES ($1, 0, 0, '')`, run.run)
	require.NoError(t, err)
	_, err = h.db.Pool(ingest.Name).Exec(t.Context(), `INSERT INTO metric_block (run_id, first_seq, key, part, attempt, low_step, high_step, low_time,
			high_time, low_index, high_index, points, whole, pieces, data)
		SELECT $1, 0, id, 0, 1, 0, 0, 0, 0, 0, 0, 1, '', '', '\xff' FROM metric_key WHERE run_id = $1 AND key = 'b'`, run.run)
	require.NoError(t, err)
	require.ErrorContains(t, read("csv"), "status 5")
	require.ErrorContains(t, read("parquet"), "status 5")
}
