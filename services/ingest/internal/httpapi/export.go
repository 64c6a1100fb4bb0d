package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
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
	Export(ctx context.Context, runID string, keys []string, attempt int32, visit func(key string, p metric.Seen) error) error
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
	format, keys, attempt, err := exportQuery(r.URL)
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
	out := newTable(format, file)
	if err := e.Metrics.Export(authn.NewContext(ctx, caller), runID, keys, attempt, out.add); err != nil {
		return err
	}
	if err := out.close(); err != nil {
		return err
	}
	w.name, w.mediaType = runID+"."+format, mediaTypes()[format]
	return file.send(w)
}

// exportQuery reads the query of an export.
func exportQuery(u *url.URL) (format string, keys []string, attempt int32, err error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", nil, 0, fault.InvalidFields(fault.At(fault.TypeValue, "Input should be a valid query string", "query"))
	}
	keys = values["keys"]
	values.Del("keys")
	rest, err := readQuery(&url.URL{RawQuery: values.Encode()}, "format?", "attempt?")
	if err != nil {
		return "", nil, 0, err
	}
	if format = rest["format"]; format == "" {
		format = formatCSV
	}
	if mediaTypes()[format] == "" {
		return "", nil, 0, fault.InvalidFields(fault.At(fault.TypeEnum, "Input should be csv or parquet", "query", "format"))
	}
	if len(keys) > maxExportKeys {
		return "", nil, 0, fault.InvalidFields(fault.At(fault.TypeLong, "List should have at most 100 items", "query", "keys"))
	}
	switch text := rest["attempt"]; text {
	case "":
	case "all":
		attempt = metric.AllAttempts
	default:
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 1 {
			return "", nil, 0, fault.InvalidFields(fault.At(fault.TypeValue, "Value error, attempt must be a number from 1, or all", "query", "attempt"))
		}
		attempt = int32(n)
	}
	return format, keys, attempt, nil
}
