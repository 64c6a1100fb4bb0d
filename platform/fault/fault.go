// Package fault owns the errors that users see: what kinds there are, which HTTP and gRPC status
// each has, how they cross hops and how they look in a body.
//
// It promises:
//   - the kind alone fixes the HTTP status;
//   - an *Error that is sent with GRPCStatus and rebuilt with From is equal in all but its cause,
//     over any number of hops;
//   - text that the program did not choose for users (causes, foreign status messages, the message
//     of an internal error) never reaches a body or a status.
//
// A Field's Loc is the raw path inside the request message, without body, query, path or header:
// services do not know how a request arrived. The edge that does (the gateway from the HTTP rule,
// an HTTP handler from its decoder) adds the first element with Relocate. gRPC carries the raw path.
package fault

import "net/http"

// Kind is the class of an error. It alone fixes the HTTP status.
type Kind string

// The kinds and their HTTP statuses.
const (
	// Invalid is a request that failed its schema: 422.
	Invalid Kind = "invalid"
	// Refused is understood and refused: 400.
	Refused Kind = "refused"
	// Unauthenticated is a missing, expired or wrong kind of credential: 401.
	Unauthenticated Kind = "unauthenticated"
	// Forbidden is the right kind of credential that may not do this: 403.
	Forbidden Kind = "forbidden"
	// Absent is a thing that is not there or that the caller may not know of: 404.
	Absent Kind = "absent"
	// MethodNotAllowed is a path that exists under other methods; only routers make it: 405.
	MethodNotAllowed Kind = "method_not_allowed"
	// Conflict is a clash with the present state: 409.
	Conflict Kind = "conflict"
	// Length is an upload without its length: 411.
	Length Kind = "length"
	// TooLarge is a body or archive over its limit: 413.
	TooLarge Kind = "too_large"
	// Range is a part of an object that it does not have: 416.
	Range Kind = "range"
	// Limited is a rate limit: 429.
	Limited Kind = "limited"
	// Internal is a defect of ours: 500. Its message is never shown.
	Internal Kind = "internal"
	// Unconfigured is a feature that this installation has not set up: 501.
	Unconfigured Kind = "unconfigured"
	// Dependency is a failed executor, object store, provider or engine: 502.
	Dependency Kind = "dependency"
	// Unavailable is deliberately not serving, or an own service away: 503.
	Unavailable Kind = "unavailable"
)

// Codes that this package itself gives.
const (
	// CodeCanceled marks an Unavailable error whose caller went away.
	CodeCanceled = "canceled"
	// CodeMaintenance marks an Unavailable error of an installation that serves nobody for now.
	CodeMaintenance = "maintenance"
	// CodeDeadline marks an Unavailable error whose deadline passed.
	CodeDeadline = "deadline_exceeded"
)

// Kinds lists every kind, for tables and tests.
func Kinds() []Kind {
	return []Kind{
		Invalid, Refused, Unauthenticated, Forbidden, Absent, MethodNotAllowed, Conflict, Length, TooLarge, Range,
		Limited, Internal, Unconfigured, Dependency, Unavailable,
	}
}

// HTTPStatus is the status of a kind; an unknown kind is 500.
func HTTPStatus(k Kind) int {
	switch k {
	case Invalid:
		return http.StatusUnprocessableEntity
	case Refused:
		return http.StatusBadRequest
	case Unauthenticated:
		return http.StatusUnauthorized
	case Forbidden:
		return http.StatusForbidden
	case Absent:
		return http.StatusNotFound
	case MethodNotAllowed:
		return http.StatusMethodNotAllowed
	case Conflict:
		return http.StatusConflict
	case Length:
		return http.StatusLengthRequired
	case TooLarge:
		return http.StatusRequestEntityTooLarge
	case Range:
		return http.StatusRequestedRangeNotSatisfiable
	case Limited:
		return http.StatusTooManyRequests
	case Unconfigured:
		return http.StatusNotImplemented
	case Dependency:
		return http.StatusBadGateway
	case Unavailable:
		return http.StatusServiceUnavailable
	case Internal:
		return http.StatusInternalServerError
	default:
		return http.StatusInternalServerError
	}
}
