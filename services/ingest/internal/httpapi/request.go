package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	incoming "github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/ingesttoken"
)

const (
	// largest is the maximum size in bytes of a body on the routes for bulk data; usual is the maximum on the other
	// routes.
	largest = 8 << 20
	usual   = 1 << 20
	// bodyTime is how long the body of a request may take to arrive, because it occupies memory meanwhile.
	bodyTime = 30 * time.Second
	// maxKept is the capacity of the largest buffer that is reused for another request.
	maxKept = 1 << 20
	maxKey  = 255 // maximum length of an Idempotency-Key
)

// request is a request with a valid token.
type request struct {
	grant *ingesttoken.Grant
	http  *http.Request
	key   groupcommit.Key
	// rank is the rank of the reporting process, or nil if the request does not state it.
	rank *int32
	// former is the name that the writer of a protected run gave itself. It is not stored.
	former string
	// earlier is the name under which an earlier version has stored the request if its body states a rank other than 0.
	earlier string
	// digest is the digest of the body. It is set only if the request has an Idempotency-Key.
	digest groupcommit.Digest
	body   []byte
}

// item returns the item of a report that stores the given number of rows. The size of the item is the size of the body
// plus the size of the rows.
func (r *request) item(stream string, rows int, write groupcommit.Write) groupcommit.Item {
	return r.sized(stream, groupcommit.Reports, len(r.body)+rows*groupcommit.RowCost, write)
}

// sized is like item, for a report whose data has the given kind and size.
func (r *request) sized(stream string, kind groupcommit.Kind, size int, write groupcommit.Write) groupcommit.Item {
	return groupcommit.Item{
		RunID: r.grant.Owner.RunID, Attempt: r.grant.Attempt, ResumeStep: r.grant.ResumeStep, Stream: stream, Key: r.key,
		Former: r.former, Earlier: r.earlier, Digest: r.digest, Write: write, Kind: kind, Size: int64(size) + groupcommit.Cost, Fence: r.grant.Fence(),
	}
}

// maxBody returns the maximum size of a body of a route. The lower limit also applies to reports of the environment,
// because they must fit into a response, and to log lines, because writers send them in small pieces.
func maxBody(path string) int64 {
	switch path {
	case "metrics", "validation", "hardware", "hparams", "benchmark":
		return largest
	default:
		return usual
	}
}

func cutPrefix(path string) (string, bool) { return strings.CutPrefix(path, Prefix) }

// idempotencyKey reads the header Idempotency-Key, which is <writer>:<seq> with seq counted from 1. It returns the zero
// Key if the request does not have this header.
func idempotencyKey(h http.Header) (groupcommit.Key, error) {
	values := h.Values("Idempotency-Key")
	if len(values) == 0 {
		return groupcommit.Key{}, nil
	}
	at := strings.LastIndexByte(values[0], ':')
	if len(values) > 1 || at < 1 || len(values[0]) > maxKey || !printable(values[0][:at]) {
		return groupcommit.Key{}, badKey()
	}
	text := values[0][at+1:]
	seq, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seq < 1 || strconv.FormatInt(seq, 10) != text {
		return groupcommit.Key{}, badKey()
	}
	return groupcommit.Key{Writer: values[0][:at], Seq: seq}, nil
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func badKey() error {
	return fault.InvalidFields(fault.At(fault.TypeStringPattern, "Input should be <writer>:<seq> with seq counted from 1", "header", "idempotency-key"))
}

// read reads the body of r into req, within bodyTime. A body that is larger than the given maximum is an error. The
// caller must call release when it no longer needs req.body, whose memory may then be used for another request.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, req *request, most int64) (release func(), err error) {
	if f := incoming.PlainJSON(r.Header); f != nil {
		return nil, f
	}
	if r.ContentLength > most {
		return nil, tooLarge(most)
	}
	runID, size := req.grant.Owner.RunID, r.ContentLength
	if size < 0 {
		size = most
	}
	// The deadline is set before memory is reserved, so that no memory is reserved for longer than bodyTime by a client
	// that sends nothing. It uses the real clock, because package net compares it with the real time.
	ctl := http.NewResponseController(w)
	if err := ctl.SetReadDeadline(clock.Real().Now().Add(bodyTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, fmt.Errorf("set the deadline of a body: %w", err)
	}
	if err := h.bodies.reserve(runID, size); err != nil {
		return nil, err
	}
	buffer, _ := h.buffers.Get().(*bytes.Buffer)
	if buffer == nil {
		buffer = &bytes.Buffer{}
	}
	release = func() {
		h.bodies.release(runID, size)
		if buffer.Cap() <= maxKept {
			buffer.Reset()
			h.buffers.Put(buffer)
		}
	}
	if _, err := buffer.ReadFrom(http.MaxBytesReader(w, r.Body, most)); err != nil {
		release()
		return nil, unread(err, most)
	}
	_ = ctl.SetReadDeadline(time.Time{}) // the server still reads in the background, to notice that the client disconnects
	if req.body = buffer.Bytes(); req.key.Seq > 0 {
		req.digest = groupcommit.DigestOf(req.body)
	}
	return release, nil
}

// unread returns the fault for a body that could not be read completely. A body that came too late is Unavailable,
// because reporters repeat a request after such a fault.
func unread(err error, most int64) error {
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return tooLarge(most)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fault.New(fault.Unavailable, "body_timeout", "the request body did not arrive within %s; send it again", bodyTime).Wrap(err)
	}
	return fault.New(fault.Refused, "body_incomplete", "the request ended before the whole body arrived; send it again").Wrap(err)
}

func tooLarge(most int64) error {
	return fault.New(fault.TooLarge, "", "the body is larger than the maximum of %d bytes", most)
}
