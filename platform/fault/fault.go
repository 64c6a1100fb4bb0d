// Package fault owns the errors that users see: their kinds, the HTTP and gRPC status of each kind, how they are
// passed between processes and how they appear in a response body.
//
// It promises:
//   - the kind alone determines the HTTP status;
//   - an *Error sent with GRPCStatus and restored with From is equal to the original, after any number of hops,
//     except for its cause and for what is too long for a response header;
//   - text not intended for users (causes, status messages of other programs, the message of an
//     internal error) never appears in a body or a status.
//
// A Field's Loc is the path inside the request message. It does not begin with body, query, path or header, because
// services do not know how a request arrived. The code that decodes the HTTP request (the gateway, or a service's own
// HTTP handler) knows this, and prepends that element with Relocate.
package fault

import "net/http"

// Kind is the class of an error. It determines the HTTP status.
type Kind string

// The kinds and their HTTP statuses.
const (
	// Invalid (422): the request does not match its schema.
	Invalid Kind = "invalid"
	// Refused (400): the request is well-formed but rejected.
	Refused Kind = "refused"
	// Unauthenticated (401): the credential is missing, expired or of the wrong kind.
	Unauthenticated Kind = "unauthenticated"
	// Forbidden (403): the caller lacks the required right.
	Forbidden Kind = "forbidden"
	// Absent (404): the object does not exist, or the caller must not learn that it exists.
	Absent Kind = "absent"
	// MethodNotAllowed (405): the path exists with other methods. Only routers use it.
	MethodNotAllowed Kind = "method_not_allowed"
	// Conflict (409): the request conflicts with the current state.
	Conflict Kind = "conflict"
	// Length (411): the upload has no Content-Length.
	Length Kind = "length"
	// TooLarge (413): the body or archive exceeds its limit.
	TooLarge Kind = "too_large"
	// Range (416): the requested range lies outside the object.
	Range Kind = "range"
	// Limited (429): a rate limit is exceeded.
	Limited Kind = "limited"
	// Internal (500): a bug in Signalbox. Its message is never shown.
	Internal Kind = "internal"
	// Unconfigured (501): the feature is not set up in this installation.
	Unconfigured Kind = "unconfigured"
	// Dependency (502): an executor, object store, provider or engine failed.
	Dependency Kind = "dependency"
	// Unavailable (503): the service refuses requests on purpose, or cannot be reached.
	Unavailable Kind = "unavailable"
)

// Codes of Unavailable errors.
const (
	// CodeCanceled means that the caller canceled the request.
	CodeCanceled = "canceled"
	// CodeMaintenance means that the installation is in maintenance mode.
	CodeMaintenance = "maintenance"
	// CodeDeadline means that the request's deadline was exceeded.
	CodeDeadline = "deadline_exceeded"
)

// Kinds returns all kinds, for tables and tests.
func Kinds() []Kind {
	return []Kind{
		Invalid, Refused, Unauthenticated, Forbidden, Absent, MethodNotAllowed, Conflict, Length, TooLarge, Range,
		Limited, Internal, Unconfigured, Dependency, Unavailable,
	}
}

// HTTPStatus returns the HTTP status of a kind. It returns 500 for an unknown kind.
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
