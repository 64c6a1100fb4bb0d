package httpapi

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
	incoming "github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/ingesttoken"
)

const (
	// largest is the maximum size in bytes of a body on the routes for bulk data; usual is the maximum on the other
	// routes. maxInFlight is the maximum total size of all bodies that are being read or stored.
	largest     = 8 << 20
	usual       = 1 << 20
	maxInFlight = 128 << 20
	// maxKept is the capacity of the largest buffer that is reused for another request.
	maxKept = 1 << 20
	maxKey  = 255 // length of an Idempotency-Key
)

// request is a request with a valid token.
type request struct {
	grant *ingesttoken.Grant
	http  *http.Request
	key   groupcommit.Key
	// digest is the digest of the body. It is set only if the request has an Idempotency-Key.
	digest groupcommit.Digest
	body   []byte
}

func (r *request) item(stream string, write groupcommit.Write) groupcommit.Item {
	return groupcommit.Item{
		RunID: r.grant.Owner.RunID, Attempt: r.grant.Attempt, Stream: stream, Key: r.key, Digest: r.digest, Write: write,
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

// read reads the body of r into req. A body of more than most bytes is an error. The caller must call release when it
// no longer needs req.body, whose memory may then be used for another request.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, req *request, most int64) (release func(), err error) {
	if f := incoming.PlainJSON(r.Header); f != nil {
		return nil, f
	}
	if r.ContentLength > most {
		return nil, tooLarge(most)
	}
	reserve := r.ContentLength
	if reserve < 0 {
		reserve = most
	}
	if h.inFlight.Add(reserve) > maxInFlight {
		h.inFlight.Add(-reserve)
		return nil, fault.New(fault.Unavailable, "ingest_busy", "too many reports are being stored; try again later")
	}
	buffer, _ := h.buffers.Get().(*bytes.Buffer)
	if buffer == nil {
		buffer = &bytes.Buffer{}
	}
	release = func() {
		h.inFlight.Add(-reserve)
		if buffer.Cap() <= maxKept {
			buffer.Reset()
			h.buffers.Put(buffer)
		}
	}
	if _, err := buffer.ReadFrom(http.MaxBytesReader(w, r.Body, most)); err != nil {
		release()
		if _, over := errors.AsType[*http.MaxBytesError](err); over {
			return nil, tooLarge(most)
		}
		return nil, fault.New(fault.Refused, "body_incomplete", "the request ended before the whole body arrived; send it again").Wrap(err)
	}
	if req.body = buffer.Bytes(); req.key.Seq > 0 {
		req.digest = groupcommit.DigestOf(req.body)
	}
	return release, nil
}

func tooLarge(most int64) error {
	return fault.New(fault.TooLarge, "", "the body is larger than the maximum of %d bytes", most)
}
