package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
)

// The formats of an export.
const (
	formatCSV     = "csv"
	formatParquet = "parquet"
)

// mediaTypes returns the media type of each format.
func mediaTypes() map[string]string {
	return map[string]string{formatCSV: "text/csv; charset=utf-8", formatParquet: "application/vnd.apache.parquet"}
}

const (
	// exportPage is the number of rows of a row group.
	exportPage = 20_000
	// maxExportBytes is the maximum size of a file, which is on this host's disk until the client has received it.
	maxExportBytes = 2 << 30
	// sendPart is the number of bytes after which the client gets new time.
	sendPart = 1 << 20
	// exportTime is the format of times: RFC 3339 with microseconds.
	exportTime = "2006-01-02T15:04:05.000000Z07:00"
)

// maxExportKeys is the maximum number of keys that the query of an export may name.
const maxExportKeys = 100

// MetricExport serves /api/runs/{id}/metrics/export, and the same path of the run's job. It shares the limits of the
// downloads of logs. The file is complete on disk before the client gets its first byte, so that no client delays the
// database.
type MetricExport struct {
	*LogDownload

	Metrics exporter

	most int64 // maxExportBytes if 0
}

// exporter passes the points of a run to visit. *metric.Store implements it.
type exporter interface {
	Export(ctx context.Context, runID string, keys []string, attempt int32, rank *int32, visit func(key string, p metric.Seen) error) error
}

// Match returns the id in the path of an export, and false for any other path.
func (e *MetricExport) Match(path string) (name string, ok bool) {
	return match(path, "/metrics/export")
}

// ServeHTTP implements http.Handler. If sending the file fails after its first bytes, the connection is aborted, so that
// the client does not take the part for the whole.
func (e *MetricExport) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.respond(w, r, e.serve) }

func (e *MetricExport) serve(ctx context.Context, w *fileResponse, r *http.Request) error {
	caller, err := callerOf(w, r)
	if err != nil {
		return err
	}
	q, err := exportQuery(r.URL)
	if err != nil {
		return err
	}
	name, _ := e.Match(r.URL.Path)
	runID, _, err := e.find(ctx, r, name)
	if err != nil {
		return err
	}
	leave, err := e.enter(caller.Subject)
	if err != nil {
		return err
	}
	defer leave()
	file, err := newExportFile(cmp.Or(e.most, maxExportBytes))
	if err != nil {
		return err
	}
	defer file.close()
	out := newTable(q.format, file)
	if err := e.Metrics.Export(authn.NewContext(ctx, caller), runID, q.keys, q.attempt, q.rank, out.add); err != nil {
		return err
	}
	if err := out.close(); err != nil {
		return err
	}
	w.name, w.mediaType = runID+"."+q.format, mediaTypes()[q.format]
	return file.send(w)
}

// exported states what an export contains.
type exported struct {
	format  string
	keys    []string // all if empty
	attempt int32    // metric.AllAttempts for all, 0 for the points that newer attempts do not hide
	rank    *int32   // nil for the lowest rank that has a key
}

// maxAttempt is the maximum number of an attempt that a request can select, as in all lists.
const maxAttempt = 999_999_999

// exportQuery reads the query of an export.
func exportQuery(u *url.URL) (*exported, error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fault.InvalidFields(fault.At(fault.TypeValue, "Input should be a valid query string", "query"))
	}
	q := &exported{keys: values["keys"]}
	values.Del("keys")
	rest, err := readFilters(&url.URL{RawQuery: values.Encode()}, "format?", "attempt?", "rank?")
	if err != nil {
		return nil, err
	}
	if q.format = cmp.Or(rest["format"], formatCSV); mediaTypes()[q.format] == "" {
		return nil, fault.InvalidFields(fault.At(fault.TypeEnum, "Input should be csv or parquet", "query", "format"))
	}
	if len(q.keys) > maxExportKeys {
		return nil, fault.InvalidFields(fault.At(fault.TypeLong, "List should have at most 100 items", "query", "keys"))
	}
	if text := rest["attempt"]; text == "all" {
		q.attempt = metric.AllAttempts
	} else if text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 1 || n > maxAttempt || strconv.FormatInt(n, 10) != text {
			return nil, fault.InvalidFields(fault.At(fault.TypeValue, fmt.Sprintf("Value error, attempt must be a number from 1 to %d, or all", maxAttempt), "query", "attempt"))
		}
		q.attempt = int32(n)
	}
	if text := rest["rank"]; text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 || n > decode.MaxRank {
			return nil, fault.InvalidFields(fault.At(fault.TypeValue, fmt.Sprintf("Value error, rank must be a number from 0 to %d", decode.MaxRank), "query", "rank"))
		}
		q.rank = new(int32(n))
	}
	return q, nil
}
