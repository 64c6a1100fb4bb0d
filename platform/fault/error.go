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

// Error is a failure as the user sees it, with a cause that only appears in logs. A value is created per request and
// not modified afterwards; methods such as WithCode and Wrap return copies.
type Error struct {
	Kind Kind
	// Code is the machine-readable reason (quota, token_revoked, ...). It may be empty.
	Code string
	// OAuth is the error code of an OAuth RFC (authorization_pending, invalid_grant, ...), which OAuth clients
	// expect in `error` next to `detail`. It is empty on all other routes.
	OAuth string
	// Msg is the message for the user. For Internal it is only logged.
	Msg string
	// Fields are the entries of a 422 response.
	Fields []Field
	// RetryAfter is the value of Retry-After. Zero means the kind's default; a negative value omits the header.
	RetryAfter time.Duration

	cause error
}

// Field is one entry of a 422's detail.
type Field struct {
	// Loc is the path of the field: snake_case names, indices as int, map keys as strings.
	Loc []any
	Msg string
	// Type is one of the Type... constants, which are FastAPI's error types.
	Type string
	// Input is the offending value, any JSON value, or nil. It must not be a secret.
	Input any
	// Ctx contains the violated limits by their FastAPI names (min_length, ge, ...).
	Ctx map[string]any
}

// New returns an error of a kind. The message is shown to users, so it must not contain host names or causes.
func New(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Msg: fmt.Sprintf(format, args...)}
}

// Absentf returns the error for an object that does not exist or is hidden: `no such job: job_01...`.
// The wording is the same for both, so that callers cannot tell whether a hidden object exists.
func Absentf(thing, id string) *Error {
	if id == "" {
		return &Error{Kind: Absent, Msg: "no such " + thing}
	}
	return &Error{Kind: Absent, Msg: "no such " + thing + ": " + id}
}

// InvalidFields returns a 422 error with these entries.
func InvalidFields(fields ...Field) *Error {
	return &Error{Kind: Invalid, Msg: "invalid request", Fields: fields}
}

// At returns an entry for InvalidFields with the path loc.
func At(typ, msg string, loc ...any) Field { return Field{Loc: loc, Msg: msg, Type: typ} }

// Error returns the text for logs: the message, the fields and the cause.
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

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an *Error of the same kind and code, for use with errors.Is.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind && t.Code == e.Code
}

// Wrap returns a copy with a cause, which only appears in logs.
func (e *Error) Wrap(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// WithCode returns a copy with the code.
func (e *Error) WithCode(code string) *Error {
	c := *e
	c.Code = code
	return &c
}

// WithOAuth returns a copy with an OAuth error code.
func (e *Error) WithOAuth(word string) *Error {
	c := *e
	c.OAuth = word
	return &c
}

// WithRetryAfter returns a copy with a Retry-After value; a negative one omits the header.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// Relocate returns a copy in which f has rewritten the path of each field. The gateway uses it to prepend body,
// query, path or header.
func (e *Error) Relocate(f func(loc []any) []any) *Error {
	c := *e
	c.Fields = slices.Clone(e.Fields)
	for i := range c.Fields {
		c.Fields[i].Loc = f(slices.Clone(c.Fields[i].Loc))
	}
	return &c
}

// Under returns a copy with the given prefix prepended to the path of each field.
func (e *Error) Under(prefix ...any) *Error {
	return e.Relocate(func(loc []any) []any { return append(slices.Clone(prefix), loc...) })
}

// Text returns the message for users. It is a generic text if the kind is Internal or unknown, or if there is no
// message.
func (e *Error) Text() string {
	if HTTPStatus(e.Kind) == http.StatusInternalServerError || e.Msg == "" {
		return neutral(e.Kind)
	}
	return e.Msg
}

// Is reports whether err has the kind. err may come from this process or from a call to another one.
func Is(err error, kind Kind) bool { return err != nil && From(err).Kind == kind }

// HasCode reports whether err has the code. err may come from this process or from a call to another one.
func HasCode(err error, code string) bool { return err != nil && From(err).Code == code }

// FromContext returns the error for a canceled or expired context, or nil if err is not a context error.
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

// Path formats a path: `spec.pools[0].name`. Keys that are not identifiers are quoted in brackets.
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
		return "conflict with the current state"
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
		return "a service that this request depends on has failed"
	case Unavailable:
		return "the service is unavailable"
	case Internal:
		return internalText
	default:
		return internalText
	}
}
