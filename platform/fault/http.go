package fault

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"strconv"
	"time"
)

// HeaderRequestID is the header with the id of the request. Every response has it.
const HeaderRequestID = "X-Request-Id"

// HeaderRefused is the header of a response to a request that a replica refused before it did anything with it. Another
// replica may serve the request. The value is the error code.
const HeaderRefused = "X-Service-Refused"

const defaultRetry = time.Second

type entry struct {
	Type  string         `json:"type"`
	Loc   []any          `json:"loc"`
	Msg   string         `json:"msg"`
	Input any            `json:"input,omitempty"`
	Ctx   map[string]any `json:"ctx,omitempty"`
}

type openAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Code    *string `json:"code"`
	Param   *string `json:"param"`
}

type document struct {
	Detail any    `json:"detail"`
	Code   string `json:"code,omitempty"`
	// Error is the error object for OpenAI clients or the error code for OAuth clients, depending on the route.
	Error any `json:"error,omitempty"`
}

// Rendered is a response ready to be written.
type Rendered struct {
	Status int
	Header http.Header
	Body   []byte
}

// Render returns the response for an error: the body `{"detail": ..., "code": ...}` and the headers.
func Render(err error, requestID string) Rendered { return render(From(err), requestID, false) }

// RenderOpenAI is like Render, with an additional `error` object for OpenAI clients.
func RenderOpenAI(err error, requestID string) Rendered { return render(From(err), requestID, true) }

// Write responds with an error. It must be called before anything is written to w.
func Write(w http.ResponseWriter, err error, requestID string) { Render(err, requestID).write(w) }

// WriteOpenAI is like Write, for routes that OpenAI clients call.
func WriteOpenAI(w http.ResponseWriter, err error, requestID string) {
	RenderOpenAI(err, requestID).write(w)
}

func (r Rendered) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.Header)
	w.WriteHeader(r.Status)
	// Ignore the error: the client is gone.
	_, _ = w.Write(r.Body)
}

func render(e *Error, requestID string, openAI bool) Rendered {
	if e == nil {
		e = &Error{Kind: Internal}
	}
	doc := document{Detail: e.detail(), Code: e.Code}
	switch {
	case openAI:
		doc.Error = e.openAI()
	case e.OAuth != "":
		doc.Error = clean(e.OAuth, maxText)
	}
	body, err := json.Marshal(doc)
	if err != nil {
		// An input or limit cannot be encoded as JSON. Send the entries without values.
		doc.Detail = withoutValues(e.Fields)
		if body, err = json.Marshal(doc); err != nil {
			body = []byte(`{"detail":"` + internalText + `"}`)
		}
	}
	return Rendered{Status: HTTPStatus(e.Kind), Header: e.header(requestID, len(body)), Body: body}
}

func (e *Error) detail() any {
	if e.Kind != Invalid || len(e.Fields) == 0 {
		return clean(e.Text(), math.MaxInt)
	}
	entries := make([]entry, len(e.Fields))
	for i, f := range e.Fields {
		entries[i] = entry{Type: f.Type, Loc: f.Loc, Msg: f.Msg, Input: f.Input, Ctx: f.Ctx}
		if f.Loc == nil {
			entries[i].Loc = []any{}
		}
	}
	return entries
}

func withoutValues(fields []Field) []entry {
	entries := make([]entry, len(fields))
	for i, f := range fields {
		loc := make([]any, 0, len(f.Loc))
		for _, el := range f.Loc {
			switch el.(type) {
			case string, int:
				loc = append(loc, el)
			}
		}
		entries[i] = entry{Type: f.Type, Loc: loc, Msg: f.Msg}
	}
	return entries
}

func (e *Error) header(requestID string, length int) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(length))
	h.Set("X-Content-Type-Options", "nosniff")
	if requestID != "" {
		h.Set(HeaderRequestID, requestID)
	}
	switch e.Kind {
	case Unauthenticated:
		h.Set("WWW-Authenticate", "Bearer")
	case Limited, Unavailable:
		if e.RetryAfter >= 0 {
			h.Set("Retry-After", retrySeconds(e.RetryAfter))
		}
	default:
	}
	return h
}

func retrySeconds(d time.Duration) string {
	if d == 0 {
		d = defaultRetry
	}
	return strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10)
}

func (e *Error) openAI() *openAIError {
	o := &openAIError{Message: clean(e.Text(), math.MaxInt), Type: openAIType(e.Kind)}
	if len(e.Fields) > 0 {
		path := Path(e.Fields[0].Loc)
		o.Message, o.Param = e.Fields[0].Msg, &path
	}
	if e.Code != "" {
		o.Code = &e.Code
	}
	return o
}

func openAIType(k Kind) string {
	switch k {
	case Unauthenticated:
		return "authentication_error"
	case Forbidden:
		return "permission_error"
	case Absent:
		return "not_found_error"
	case Limited:
		return "rate_limit_error"
	case Unavailable:
		return "service_unavailable"
	case Internal, Unconfigured, Dependency:
		return "server_error"
	case Invalid, Refused, MethodNotAllowed, Conflict, Length, TooLarge, Range:
		return "invalid_request_error"
	default:
		return "server_error"
	}
}
