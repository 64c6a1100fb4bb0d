package middleware

import (
	"errors"
	"io"
	"net"
	"net/http"
	"slices"

	"github.com/signalbox-dev/signalbox/gateway/internal/router"
	"github.com/signalbox-dev/signalbox/platform/enginepath"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/obs"
)

// Fail writes err as the response, in the format that the route's clients expect.
func Fail(w http.ResponseWriter, r *http.Request, err error) {
	if wrong, ok := errors.AsType[*router.MethodError](err); ok {
		w.Header().Set("Allow", wrong.Allow())
	}
	id := obs.RequestID(r.Context())
	if enginepath.ForEngine(r.URL.Path) { // the error takes the place of an engine's response
		fault.WriteOpenAI(w, err, id)
		return
	}
	if c := CallOf(r.Context()); c != nil && c.Match != nil && c.Handler == handlerOAuth {
		err = worded(err)
	}
	fault.Write(w, err, id)
}

// handlerOAuth names the handler of the OAuth forms, whose clients expect an `error` member.
const handlerOAuth = "oauth"

// worded adds the error code temporarily_unavailable of OAuth (RFC 6749) to a fault of the kind Unavailable that has no
// OAuth code. It is used for failures before the form is read.
func worded(err error) error {
	f := *fault.From(err)
	if f.OAuth == "" && f.Kind == fault.Unavailable {
		f.OAuth = "temporarily_unavailable"
	}
	return &f
}

// WithLocations prefixes each field's path in the error of a call with the field's source: path, query or body, or
// header for Last-Event-ID. Faults from the body decoder and a service's faults about a header already have the prefix
// (tools/routes ensures that no request message has a field named header). It also sets the type "missing" on the
// faults of fields that the body or the query does not contain, and calls WithGateCode.
func WithLocations(c *Call, err error) *fault.Error {
	return WithGateCode(c.RPC, placed(c, err))
}

// WithGateCode adds the code "schema", the name of the first admission check, to the fault of an invalid job submission
// if that fault has no code. It returns any other fault unchanged.
func WithGateCode(rpc string, f *fault.Error) *fault.Error {
	if rpc == submitRPC && f.Kind == fault.Invalid && f.Code == "" {
		return f.WithCode(codeSchema)
	}
	return f
}

// The code of a refused job submission is the name of the admission check, also called gate, that refused it. The first
// check, "schema", validates the fields of the body.
const (
	submitRPC  = "signalbox.jobs.v1.JobService/SubmitJob"
	codeSchema = "schema"
)

func placed(c *Call, err error) *fault.Error {
	if c.Body != nil && c.Body.Err() != nil {
		return bodyFault(c.Body.Err())
	}
	f := fault.From(err)
	if len(f.Fields) == 0 {
		return f
	}
	return missing(c, f.Relocate(func(loc []any) []any { return locate(c, loc) }))
}

// missing sets the type "missing" on the faults of fields that the body or the query does not contain.
func missing(c *Call, f *fault.Error) *fault.Error {
	return f.MarkMissing(func(loc []any) bool {
		if len(loc) == 2 && loc[0] == "query" && c.URL != nil {
			name, _ := loc[1].(string)
			return !c.URL.Query().Has(name)
		}
		return len(loc) > 1 && loc[0] == "body" && c.Body.Lacks(loc[1:])
	})
}

func locate(c *Call, loc []any) []any {
	m := c.Match
	var first string
	if len(loc) > 0 {
		first, _ = loc[0].(string)
	}
	switch {
	case first == "header":
		return loc
	case c.Resumed && first == "after":
		return []any{"header", "last-event-id"}
	case first != "" && slices.Contains(m.Vars, first):
		return append([]any{"path"}, loc...)
	case m.Body == "*":
		return append([]any{"body"}, loc...)
	case m.Body != "" && m.Body == first:
		return append([]any{"body"}, loc[1:]...)
	default:
		return append([]any{"query"}, loc...)
	}
}

// bodyFault returns the fault for an error of reading or decoding a body.
func bodyFault(err error) *fault.Error {
	var own *fault.Error
	var tooLarge *http.MaxBytesError
	var timeout net.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &tooLarge):
		return tooLargeFault(tooLarge.Limit)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fault.New(fault.Refused, "body_timeout", "the request body did not arrive in time").Wrap(err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fault.New(fault.Refused, "body_cut", "the request body is shorter than its Content-Length").Wrap(err)
	default:
		return fault.New(fault.Refused, "body_unreadable", "the request body could not be read").Wrap(err)
	}
}

func tooLargeFault(limit int64) *fault.Error {
	return fault.New(fault.TooLarge, "", "the request body is larger than %d bytes", limit)
}
