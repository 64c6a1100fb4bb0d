package ingest_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/ingest"
)

// small returns a configuration with limits that a few requests reach.
func small() ingest.Config {
	return ingest.Config{LogBytes: 20_000, PointBytes: 20_000, ReportBytes: 20_000, ArtifactBytes: 4 << 20}
}

// filling returns, for each limited route except logs, the code of its refusal and a report of 1,000 to 8,000 bytes.
func filling() map[string]struct{ code, body string } {
	text := strings.Repeat("x", 4000)
	points := strings.TrimSuffix(strings.Repeat(`{"key":"a","step":1,"value":1,"ts":`+ts+`},`, 100), ",")
	samples := strings.TrimSuffix(strings.Repeat(`{"key":"util","value":1,"ts":`+ts+`},`, 100), ",")
	return map[string]struct{ code, body string }{
		"metrics":     {"points_limit", `"points":[` + points + `]`},
		"hardware":    {"points_limit", `"points":[` + samples + `]`},
		"validation":  {"reports_limit", `"step":1,"samples":[{"user":"` + text + `"}]`},
		"hparams":     {"reports_limit", `"params":{"a":"` + text + `"}`},
		"environment": {"reports_limit", `"packages":{"a":"` + text[:2000] + `","b":"` + text[:2000] + `"}`},
		"benchmark":   {"reports_limit", `"name":"a","metric":"b","value":1,"samples_uri":"` + strings.Repeat("x", 1000) + `"`},
	}
}

// size returns the sum of the sizes of a run's rows in a table.
func (t *training) size(table string) (n int) {
	t.r.h.t.Helper()
	err := t.r.h.db.Pool(ingest.Name).QueryRow(t.r.h.t.Context(), `SELECT coalesce(sum(octet_length(r::text)), 0) FROM `+table+` r WHERE run_id = $1`, t.run).Scan(&n)
	require.NoError(t.r.h.t, err)
	return n
}

func TestReports_beyondLimitRefused(t *testing.T) {
	t.Parallel()
	r := open(t).replica(small())
	for path, c := range filling() {
		run := r.train()
		var last response
		n := 0
		for ; n < 100; n++ {
			if last = run.call(http.MethodPost, path, fmt.Sprintf("w:%d", n+1), run.body(c.body)); last.status != http.StatusOK {
				break
			}
		}
		require.Equal(t, http.StatusBadRequest, last.status, "%s: %s", path, last.body)
		require.Equal(t, c.code, last.json(t)["code"], path)
		require.Greater(t, n, 3, path)
		require.Less(t, n, 20, path)
		rows := run.size("mark") + run.size("ahead") + run.size("request_digest")
		for i := range 20 { // each request is new and from another writer
			key := fmt.Sprintf("v%d:%d", i, i+1)
			require.Equal(t, http.StatusBadRequest, run.call(http.MethodPost, path, key, run.body(c.body)).status, path)
		}
		require.Equal(t, rows, run.size("mark")+run.size("ahead")+run.size("request_digest"), "%s: refused requests add no rows", path)
		require.Equal(t, http.StatusOK, run.call(http.MethodPost, path, "w:1", run.body(c.body)).status, "%s: a repeat is acknowledged", path)
		run.post("logs", "w:1", `"chunks":["still here\n"]`)
		run.post("lifecycle", "w:1", `"event":"running","ts":`+ts)
		r.train().post(path, "w:1", c.body)
	}
}

// A small body can contain many rows, which can need more space in the database than the body.
func TestReports_emptyRowsCount(t *testing.T) {
	t.Parallel()
	r := open(t).replica(small())
	for path, body := range map[string]string{
		"validation": `"step":1,"samples":[` + strings.TrimSuffix(strings.Repeat("{},", 100), ",") + `]`,
		"hparams":    `"params":{` + strings.TrimSuffix(numbered(100), ",") + `}`,
	} {
		run := r.train()
		require.Less(t, len(body), 1000, path)
		got := run.call(http.MethodPost, path, "w:1", run.body(body))
		require.Equal(t, http.StatusBadRequest, got.status, "%s: %s", path, got.body)
		require.Equal(t, "reports_limit", got.json(t)["code"], path)
	}
}

// numbered returns n members of a JSON object, with short names.
func numbered(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, `"%d":1,`, i)
	}
	return out.String()
}

func TestReports_concurrentWritersStayBelowLimit(t *testing.T) {
	t.Parallel()
	h := open(t)
	first, second := h.replica(small()), h.replica(small())
	run := first.train()
	other := *run
	other.r = second
	body := filling()["validation"].body
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for i := range 40 {
		all.Go(func() {
			sender := run
			if i%2 == 0 {
				sender = &other
			}
			a := sender.call(http.MethodPost, "validation", fmt.Sprintf("w%d:1", i), run.body(strings.Replace(body, `"step":1`, fmt.Sprintf(`"step":%d`, i), 1)))
			mu.Lock()
			defer mu.Unlock()
			statuses[a.status]++
		})
	}
	all.Wait()
	require.Equal(t, map[int]int{http.StatusOK: 4, http.StatusBadRequest: 36}, statuses)
	require.Equal(t, 4, count(t, h, "sample"))
}

func TestLogs_beyondLimitCutWithNote(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(small())
	run, other := r.train(), r.train()
	line := `"chunks":["` + strings.Repeat("x", 999) + `\n"]`
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for n := range 25 {
				if a := run.call(http.MethodPost, "logs", fmt.Sprintf("w%d:%d", w, n+1), run.body(line)); a.status != http.StatusOK {
					t.Error(a.status, string(a.body))
				}
			}
		})
	}
	all.Wait()
	lines := run.lines()
	require.Len(t, lines, 20_000/(1000+512)+1)
	note := lines[len(lines)-1]
	require.Contains(t, note, "maximum of 20000 bytes (SERVICE_INGEST_RUN_LOG_BYTES)")
	require.Equal(t, 1, strings.Count(strings.Join(lines, "\n"), "signalbox:"))
	stored := run.size("log_chunk") + run.size("log_tail") + run.size("mark") + run.size("ahead") + run.size("request_digest")
	for w := range 50 {
		run.post("logs", fmt.Sprintf("v%d:%d", w, w+2), `"chunks":["x"]`)
		run.post("logs", "", `"chunks":["x"]`)
	}
	require.Equal(t, stored, run.size("log_chunk")+run.size("log_tail")+run.size("mark")+run.size("ahead")+run.size("request_digest"),
		"output that is not stored adds no rows")
	other.post("logs", "w:1", line)
	require.Len(t, other.lines(), 1)
	raised := h.replica(ingest.Config{LogBytes: 40_000})
	run.r = raised
	run.post("logs", "w0:26", `"chunks":["again\n"]`)
	require.Equal(t, append(lines, "1 again"), run.lines(), "the log continues when the limit is raised")
	run.close()
	require.Equal(t, append(lines, "1 again"), run.lines())
}

func TestUploads_beyondLimitRefused(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(small())
	run, other := r.train(), r.train()
	sign := func(run *training, name string, size int) response {
		sum := sha256.Sum256([]byte(name))
		q := url.Values{
			"run_id": {run.run}, "kind": {"checkpoint"}, "path": {name}, "size_bytes": {fmt.Sprint(size)}, "sha256": {hex.EncodeToString(sum[:])},
		}
		return run.call(http.MethodGet, "artifact/upload-url?"+q.Encode(), "", "")
	}
	uri := run.upload("checkpoint", "m.gguf", []byte("weights"))
	body := fmt.Sprintf(`"kind":"checkpoint","path":%q,"format":"gguf"`, uri)
	run.post("artifact", "w:1", body)
	_, err := h.db.Pool(ingest.Name).Exec(t.Context(), `DELETE FROM object_hold`)
	require.NoError(t, err)
	run.post("artifact", "w:1", body)
	require.Equal(t, 200, sign(run, "a", 900_000).status)
	require.Equal(t, 200, sign(run, "a", 900_000).status, "an object counts once")
	var all sync.WaitGroup
	var mu sync.Mutex
	refused := 0
	for i := range 8 {
		all.Go(func() {
			a := sign(run, fmt.Sprintf("b%d", i), 1)
			mu.Lock()
			defer mu.Unlock()
			if a.status != 200 {
				refused++
				if a.json(t)["code"] != "artifacts_limit" || a.status != http.StatusBadRequest {
					t.Error(a.status, string(a.body))
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, 8, refused, "after two objects and an artifact, the rest of the limit is less than the cost of another object")
	require.Equal(t, 2, count(t, h, "object_hold"), "a refused upload adds no row")
	a := run.call(http.MethodPost, "artifact", "w:2", run.body(`"kind":"eval_report","path":"/local","format":"f"`))
	require.Equal(t, "artifacts_limit", a.json(t)["code"])
	missing := fmt.Sprintf(`"kind":"checkpoint","path":%q,"format":"gguf"`, strings.Replace(uri, "m.gguf", "absent", 1))
	require.Equal(t, "not_uploaded", run.call(http.MethodPost, "artifact", "w:2", run.body(missing)).json(t)["code"])
	require.Equal(t, 2, count(t, h, "object_hold"), "a report without an upload adds no row")
	require.Equal(t, 200, sign(other, "a", 900_000).status)
	run.post("logs", "w:1", `"chunks":["still here\n"]`)
}
