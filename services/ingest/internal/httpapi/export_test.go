package httpapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/csv"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// oddPoints are points whose values a format could lose.
func oddPoints() []metric.Seen {
	at := time.Date(2026, 11, 21, 3, 4, 5, 678_901_000, time.UTC).UnixMicro()
	var out []metric.Seen
	for i, x := range []float64{
		0.1, -2.5, math.NaN(), math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64, math.MaxFloat64, math.Copysign(0, -1),
	} {
		out = append(out, metric.Seen{Step: int64(i) - 3, Value: x, Micros: at + int64(i), Attempt: 2})
	}
	return out
}

func write(t *testing.T, format string, key string, points []metric.Seen) []byte {
	t.Helper()
	var file bytes.Buffer
	out := newTable(format, &file)
	for _, p := range points {
		require.NoError(t, out.add(key, p))
	}
	require.NoError(t, out.close())
	return file.Bytes()
}

func TestExport_CSV(t *testing.T) {
	t.Parallel()
	lines, err := csv.NewReader(bytes.NewReader(write(t, formatCSV, "train/loss", oddPoints()))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"key", "step", "value", "time", "attempt"}, lines[0])
	require.Equal(t, []string{"train/loss", "-3", "0.1", "2026-11-21T03:04:05.678901Z", "2"}, lines[1])
	var values []string
	for _, l := range lines[1:] {
		values = append(values, l[2])
	}
	require.Equal(t, []string{"0.1", "-2.5", "NaN", "Infinity", "-Infinity", "5e-324", "1.7976931348623157e+308", "-0"}, values)
	require.Equal(t, "key,step,value,time,attempt\n", string(write(t, formatCSV, "", nil)))
}

// A spreadsheet must not take the name of a metric for a formula.
func TestExport_CSV_hasNoFormulas(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"} {
		lines, err := csv.NewReader(bytes.NewReader(write(t, formatCSV, key, oddPoints()[:1]))).ReadAll()
		require.NoError(t, err)
		require.Equal(t, byte('\''), lines[1][0][0], "%q", key)
	}
	require.Equal(t, "a,\"b\"\n=c", plainText("a,\"b\"\n=c"))
}

func TestExport_Parquet(t *testing.T) {
	t.Parallel()
	points := oddPoints()
	data := write(t, formatParquet, "=1", points)
	rows, err := parquet.Read[parquetRow](bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Len(t, rows, len(points))
	for i, r := range rows {
		require.Equal(t, "=1", r.Key, "names are data in Parquet")
		require.Equal(t, math.Float64bits(points[i].Value), math.Float64bits(r.Value))
		require.Equal(t, []any{points[i].Step, points[i].Micros, points[i].Attempt}, []any{r.Step, r.Time.UnixMicro(), r.Attempt})
	}
	data = write(t, formatParquet, "", nil)
	rows, err = parquet.Read[parquetRow](bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Empty(t, rows)
}

// Another implementation of Parquet reads the same values.
func TestExport_Parquet_readByDuckDB(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../../..")
	require.NoError(t, err)
	script := filepath.Join(root, "scripts/tools/venv.sh")
	python, err := exec.CommandContext(t.Context(), script, "duckdb", "services/ingest/internal/httpapi/testdata/duckdb.lock").Output()
	require.NoError(t, err, script)
	file := filepath.Join(t.TempDir(), "points.parquet")
	require.NoError(t, os.WriteFile(file, write(t, formatParquet, "train/loss", oddPoints()), 0o600))
	const read = `
import sys, duckdb
duckdb.sql("SET TimeZone = 'UTC'")
for row in duckdb.sql(
    f"SELECT key, step, value, strftime(time, '%Y-%m-%dT%H:%M:%S.%f') || '+00:00', attempt FROM '{sys.argv[1]}'").fetchall():
    print(*row)
`
	out, err := exec.CommandContext(t.Context(), strings.TrimSpace(string(python)), "-c", read, file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	want := ""
	for i, value := range []string{"0.1", "-2.5", "nan", "inf", "-inf", "5e-324", "1.7976931348623157e+308", "-0.0"} {
		want += fmt.Sprintf("train/loss %d %s 2026-11-21T03:04:05.67890%d+00:00 2\n", i-3, value, i+1)
	}
	require.Equal(t, want, string(out))
}

func TestMetricExport_Match(t *testing.T) {
	t.Parallel()
	e := &MetricExport{}
	for path, want := range map[string]string{
		"/api/runs/run_1/metrics/export": "run_1", "/api/jobs/job_1/metrics/export": "job_1", "/api/runs/a/b/metrics/export": "", "/api/runs/run_1/metrics": "",
	} {
		got, ok := e.Match(path)
		require.Equal(t, []any{want, want != ""}, []any{got, ok}, path)
	}
}

// exports is a metric.Store that passes points and then fails with err.
type exports struct {
	points  int
	err     error
	visited func()
	caller  string
}

func (e *exports) Export(ctx context.Context, _ string, _ []string, _ int32, _ *int32, visit func(key string, p metric.Seen) error) error {
	e.caller = authn.CallerOf(ctx).Subject
	for i := range e.points {
		if err := visit("loss", metric.Seen{Step: int64(i), Value: float64(i) / 3}); err != nil {
			return err
		}
		if e.visited != nil {
			e.visited()
		}
	}
	return e.err
}

// export records the response to an export of a user.
func export(t *testing.T, e *MetricExport, w *httptest.ResponseRecorder, query string) {
	t.Helper()
	clk := clock.Real()
	key, err := authn.NewSigningKey(rand.Reader)
	require.NoError(t, err)
	signer := authn.NewSigner(clk, func() string { return "jti" }, func() authn.SigningKey { return key })
	token, _, err := signer.Sign(&authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator})
	require.NoError(t, err)
	e.LogDownload = &LogDownload{
		Readable: func(_ context.Context, name string) (string, error) { return name, nil },
		Progress: func(context.Context, string) (run.Progress, error) { return run.Progress{}, nil },
		Classify: func(err error) error { return err }, Clock: clk, IDs: id.NewSource(clk, rand.Reader), Log: slog.New(slog.DiscardHandler),
	}
	r := httptest.NewRequest(http.MethodGet, "/api/runs/run_1/metrics/export"+query, nil)
	r.Header.Set(headerCaller, token)
	e.ServeHTTP(w, r)
}

// The client gets nothing before the points have been read, and then the whole file, whose length it knows.
func TestMetricExport_sendsCompleteFile(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"", "?format=parquet"} {
		w := httptest.NewRecorder()
		all := &exports{points: 100_000}
		all.visited = func() { require.Zero(t, w.Body.Len()) }
		export(t, &MetricExport{Metrics: all}, w, query)
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, "usr_1", all.caller)
		require.Equal(t, strconv.Itoa(w.Body.Len()), w.Header().Get("Content-Length"))
		data := w.Body.Bytes()
		if query == "" {
			lines, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
			require.NoError(t, err)
			require.Len(t, lines, all.points+1)
			continue
		}
		rows, err := parquet.Read[parquetRow](bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		require.Len(t, rows, all.points)
	}
}

// An export that fails, also after many points, gets an error response and no part of a file.
func TestMetricExport_failsWithResponse(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"", "?format=parquet"} {
		w := httptest.NewRecorder()
		failing := &exports{points: 100_000, err: fault.New(fault.Absent, "metrics_deleted", "deleted")}
		export(t, &MetricExport{Metrics: failing}, w, query)
		require.Equal(t, http.StatusNotFound, w.Code)
		require.Contains(t, w.Body.String(), "metrics_deleted")
		require.Empty(t, w.Header().Get("Content-Disposition"))

		failing.err = errors.New("the database is gone")
		w = httptest.NewRecorder()
		export(t, &MetricExport{Metrics: failing}, w, query)
		require.Equal(t, http.StatusInternalServerError, w.Code)
	}
}

func TestMetricExport_limitsSize(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"", "?format=parquet"} {
		w := httptest.NewRecorder()
		export(t, &MetricExport{Metrics: &exports{points: 100_000}, most: 100_000}, w, query)
		require.Equal(t, http.StatusBadRequest, w.Code, query)
		require.Contains(t, w.Body.String(), "export_size")
		require.Contains(t, w.Body.String(), "keys")
	}
}

func TestExportFile_leavesNothing(t *testing.T) {
	t.Parallel()
	f, err := newExportFile(1)
	require.NoError(t, err)
	defer f.close()
	require.NoFileExists(t, f.file.Name())
	_, err = f.Write([]byte("ab"))
	require.True(t, fault.HasCode(err, "export_size") && fault.Is(err, fault.Refused), "%v", err)
}
