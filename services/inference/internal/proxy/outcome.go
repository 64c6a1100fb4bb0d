package proxy

import (
	"context"
	"errors"
	"net/http"
	"os"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
	"github.com/signalbox-dev/signalbox/services/inference/internal/routing"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

// ending is what happened to a call that is not a WebSocket.
type ending struct {
	// err is why the caller did not get a complete response of the engine; nil if it got one.
	err error
	// sent is the error of sending the request.
	sent error
	// over is true if the context of the call has ended, and cause is the reason.
	over  bool
	cause error
	// status is that of the engine's response; 0 if its headers did not arrive.
	status int
	// failed is true if the response is an event stream with an event that reports an error.
	failed bool
}

// endingOf returns what happened to a call until now.
func endingOf(ctx context.Context, status int, err, sent error) ending {
	return ending{err: err, sent: sent, over: ctx.Err() != nil, cause: context.Cause(ctx), status: status}
}

// outcome returns the outcome to record: that of the first case that applies.
func (e ending) outcome() string {
	switch cut := cutOutcome(e.cause); {
	case e.err == nil && e.failed:
		return traffic.EngineError
	case e.err == nil:
		return ofStatus(e.status)
	case cut != "":
		return cut
	// Clients disconnect when they read an error event.
	case e.failed:
		return traffic.EngineError
	case errors.Is(e.err, errCaller), errors.Is(e.err, engineclient.ErrRequestBody), e.status != 0 && lostBody(e.sent):
		return traffic.ClientClosed
	// Before a response, an expired deadline means that the caller is still connected: it was too slow, and the server has
	// therefore canceled the context.
	case e.over && (e.status != 0 || !errors.Is(e.err, os.ErrDeadlineExceeded)):
		return traffic.ClientClosed
	case errors.Is(e.err, engineclient.ErrTimeout):
		return traffic.Timeout
	case errors.Is(e.err, engineclient.ErrUnreachable):
		return traffic.Unreachable
	case e.status != 0:
		return traffic.Truncated
	}
	return traffic.EngineError // the engine did not send a valid response
}

// lostBody reports whether the caller did not send its whole body, although it was to be read.
func lostBody(sent error) bool {
	return errors.Is(sent, engineclient.ErrRequestBody) && !errors.Is(sent, errInterrupted)
}

// cutOutcome returns the outcome of a call that the proxy itself cut for the given cause. It returns "" for any other
// cause.
func cutOutcome(cause error) string {
	_, over := errors.AsType[*fault.Error](cause)
	switch {
	case over:
		return traffic.SessionOver
	case errors.Is(cause, routing.ErrRevoked):
		return traffic.Revoked
	case errors.Is(cause, routing.ErrSuspended):
		return traffic.Suspended
	case errors.Is(cause, routing.ErrExpired):
		return traffic.LeaseOver
	}
	return ""
}

// ofStatus returns the outcome of a complete response. The request is at fault for a status from 400 to 499, except for
// those that depend on the engine: its key, its limits and its time.
func ofStatus(status int) string {
	switch {
	case status < http.StatusBadRequest:
		return traffic.OK
	case status >= http.StatusInternalServerError, status == http.StatusUnauthorized, status == http.StatusForbidden,
		status == http.StatusRequestTimeout, status == http.StatusTooManyRequests:
		return traffic.EngineError
	}
	return traffic.ClientError
}
