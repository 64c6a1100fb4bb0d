package fault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const internalText = "Internal Server Error"

// Error is one failure as its user sees it, with the cause that only logs see. Values are made per
// request and not changed after that; the With... methods give copies.
type Error struct {
	Kind Kind
	// Code is the machine's word for the reason (quota, token_revoked, ...); it may be empty.
	Code string
	// OAuth is the word of an OAuth RFC for the reason (authorization_pending, invalid_grant, ...), which its
	// clients look for in `error` beside `detail`; empty on all other routes.
	OAuth string
	// Msg is a sentence for the user. For Internal it is only logged.
	Msg string
	// Fields are the entries of a 422.
	Fields []Field
	// RetryAfter goes into Retry-After. Zero takes the default of the kind, a negative value sends none.
	RetryAfter time.Duration

	cause error
}

// Field is one entry of a 422's detail.
type Field struct {
	// Loc is the path: snake_case names, indices as int, map keys as strings.
	Loc []any
	Msg string
	// Type is a word that FastAPI's users know: one of the Type... constants.
	Type string
	// Input is the offending value, any JSON value, or nil. Never a secret.
	Input any
	// Ctx holds the limits that were missed, under FastAPI's names (min_length, ge, ...).
	Ctx map[string]any
}

// New makes an error of a kind. The format is a sentence for users: no ids of hosts, no causes.
func New(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Msg: fmt.Sprintf(format, args...)}
}

// Absentf is the one wording for a thing that is not there or must look so: `no such job: job_01...`.
// Equal words for hidden and absent things are what keeps them apart from no one.
func Absentf(thing, id string) *Error {
	if id == "" {
		return &Error{Kind: Absent, Msg: "no such " + thing}
	}
	return &Error{Kind: Absent, Msg: "no such " + thing + ": " + id}
}

// InvalidFields is a 422 with its entries.
func InvalidFields(fields ...Field) *Error {
	return &Error{Kind: Invalid, Msg: "invalid request", Fields: fields}
}

// At makes one entry for InvalidFields at a path.
func At(typ, msg string, loc ...any) Field { return Field{Loc: loc, Msg: msg, Type: typ} }

// Error is the text for logs: the message and the causes.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Msg)
	for _, f := range e.Fields {
		fmt.Fprintf(&b, "; %s: %s", Path(f.Loc), f.Msg)
	}
	if e.cause != nil {
		b.WriteString(": ")
		b.WriteString(e.cause.Error())
	}
	return b.String()
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.cause }

// Is matches another *Error of the same kind and code, so that a test or a caller can compare with
// a value made on the spot.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind && t.Code == e.Code
}

// Wrap keeps a cause for the logs.
func (e *Error) Wrap(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// WithCode sets the code.
func (e *Error) WithCode(code string) *Error {
	c := *e
	c.Code = code
	return &c
}

// WithOAuth sets the word that OAuth's clients read.
func (e *Error) WithOAuth(word string) *Error {
	c := *e
	c.OAuth = word
	return &c
}

// WithRetryAfter sets the pause a client should make; a negative one asks for no header.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// Relocate rewrites the path of each field: the edge puts body, query, path or header in front.
func (e *Error) Relocate(f func(loc []any) []any) *Error {
	c := *e
	c.Fields = slices.Clone(e.Fields)
	for i := range c.Fields {
		c.Fields[i].Loc = f(slices.Clone(c.Fields[i].Loc))
	}
	return &c
}

// Under puts the same first elements before every field's path.
func (e *Error) Under(prefix ...any) *Error {
	return e.Relocate(func(loc []any) []any { return append(slices.Clone(prefix), loc...) })
}

// Text is the message that users may read: for Internal, and for a kind that is none, a neutral one.
func (e *Error) Text() string {
	if HTTPStatus(e.Kind) == http.StatusInternalServerError || e.Msg == "" {
		return neutral(e.Kind)
	}
	return e.Msg
}

// Is says whether an error, from this process or from another hop, is of a kind.
func Is(err error, kind Kind) bool { return err != nil && From(err).Kind == kind }

// HasCode says whether an error, from this process or from another hop, carries a code.
func HasCode(err error, code string) bool { return err != nil && From(err).Code == code }

// FromContext is the error of a context that ended, or nil when err is no context error.
func FromContext(err error) *Error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Kind: Unavailable, Code: CodeDeadline, Msg: "the request took too long", cause: err}
	case errors.Is(err, context.Canceled):
		return &Error{Kind: Unavailable, Code: CodeCanceled, Msg: "the request was canceled", cause: err}
	default:
		return nil
	}
}

// Path writes a path for people: `spec.pools[0].name`, map keys in brackets.
func Path(loc []any) string {
	var b strings.Builder
	for _, el := range loc {
		switch v := el.(type) {
		case string:
			if !plain(v) {
				fmt.Fprintf(&b, "[%q]", v)
				continue
			}
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(v)
		default:
			fmt.Fprintf(&b, "[%v]", v)
		}
	}
	return b.String()
}

func plain(s string) bool {
	for _, r := range s {
		if r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return s != ""
}

func neutral(k Kind) string {
	switch k {
	case Invalid:
		return "invalid request"
	case Refused:
		return "the request was refused"
	case Unauthenticated:
		return "Not authenticated"
	case Forbidden:
		return "not allowed"
	case Absent:
		return "Not Found"
	case MethodNotAllowed:
		return "Method Not Allowed"
	case Conflict:
		return "conflict with the present state"
	case Length:
		return "Content-Length is required"
	case TooLarge:
		return "the request is too large"
	case Range:
		return "the range cannot be satisfied"
	case Limited:
		return "too many requests"
	case Unconfigured:
		return "this feature is not configured"
	case Dependency:
		return "a dependency failed"
	case Unavailable:
		return "the service is not available"
	case Internal:
		return internalText
	default:
		return internalText
	}
}
