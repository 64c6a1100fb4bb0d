package httpapi

import (
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/timestamp"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/logs"
)

// fileResponse is a response with a file. The headers are written with the first bytes.
type fileResponse struct {
	http.ResponseWriter

	name, mediaType string
	begun           bool
}

// begin sets the headers of the file.
func (w *fileResponse) begin() {
	if w.begun {
		return
	}
	w.begun = true
	h := w.Header()
	h.Set("Content-Type", w.mediaType)
	h.Set("Content-Disposition", `attachment; filename="`+w.name+`"`)
	h.Set("Cache-Control", "private, no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	w.WriteHeader(http.StatusOK)
}

// Write implements http.ResponseWriter.
func (w *fileResponse) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

// Unwrap returns the response for http.ResponseController.
func (w *fileResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// logQuery reads the query of a download.
func logQuery(u *url.URL) (q *logs.Query, labeled bool, err error) {
	values, err := readFilters(u, "attempt?", "rank?", "node?", "since?", "until?", "after?", "labels?")
	if err != nil {
		return nil, false, err
	}
	q = &logs.Query{}
	var faults []fault.Field
	wrong := func(typ, msg, name string) { faults = append(faults, fault.At(typ, msg, "query", name)) }
	number := func(name string, least, most int64) *int64 {
		n, err := strconv.ParseInt(values[name], 10, 64)
		switch {
		case values[name] == "":
			return nil
		case err != nil:
			wrong(fault.TypeIntParsing, "Input should be a valid integer", name)
		case n < least || n > most:
			wrong(fault.TypeValue, "Value error, the number must be from "+strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10), name)
		}
		return &n
	}
	moment := func(name string) *time.Time {
		if values[name] == "" {
			return nil
		}
		t, ok := timestamp.Parse(values[name])
		if !ok {
			wrong(fault.TypeDatetime, "Input should be a time with an offset, such as "+timestamp.Example, name)
		}
		return &t
	}
	const last = 1<<53 - 1 // of the line numbers that JavaScript can represent
	q.Attempt, q.Rank = narrow(number("attempt", 1, math.MaxInt32)), narrow(number("rank", 0, math.MaxInt32))
	q.Since, q.Until = moment("since"), moment("until")
	switch node := values["node"]; {
	case utf8.RuneCountInString(node) > maxNode:
		wrong(fault.TypeStringLong, "String should have at most 255 characters", "node")
	case !utf8.ValidString(node) || strings.IndexByte(node, 0) >= 0:
		wrong(fault.TypeValue, "String should be valid UTF-8 without NUL", "node")
	case node != "":
		q.Node = &node
	}
	if after := number("after", 0, last); after != nil {
		q.After = *after
	}
	switch values["labels"] {
	case "", "true", "false":
	default:
		wrong(fault.TypeBoolParsing, "Input should be true or false", "labels")
	}
	if len(faults) > 0 {
		return nil, false, fault.InvalidFields(faults...)
	}
	return q, values["labels"] == "true", nil
}

func narrow(n *int64) *int32 {
	if n == nil {
		return nil
	}
	short := int32(*n)
	return &short
}
