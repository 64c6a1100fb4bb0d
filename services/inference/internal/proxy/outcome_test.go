package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
	"github.com/signalbox-dev/signalbox/services/inference/internal/routing"
	"github.com/signalbox-dev/signalbox/services/inference/internal/socket"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

func TestEnding_outcome_complete(t *testing.T) {
	t.Parallel()
	for want, statuses := range map[string][]int{
		traffic.OK:          {200, 201, 204, 206, 301, 304, 307, 399},
		traffic.ClientError: {400, 402, 404, 405, 409, 411, 413, 415, 418, 422, 424, 428, 431, 451, 499},
		traffic.EngineError: {401, 403, 408, 429, 500, 501, 502, 503, 504, 529, 599, 600, 999},
	} {
		for _, status := range statuses {
			require.Equal(t, want, ending{status: status}.outcome(), status)
			require.Equal(t, want, ending{status: status, over: true, cause: routing.ErrRevoked}.outcome(), "the response of %d was complete", status)
			require.Equal(t, traffic.EngineError, ending{status: status, failed: true}.outcome(), "an event of the response of %d reports an error", status)
		}
	}
}

func TestEnding_outcome_incomplete(t *testing.T) {
	t.Parallel()
	over := fault.New(fault.Conflict, "session_over", "it is over")
	body := fmt.Errorf("%w: %w", engineclient.ErrRequestBody, io.ErrUnexpectedEOF)
	caller := fmt.Errorf("%w: %w", errCaller, os.ErrDeadlineExceeded)
	early := fmt.Errorf("%w: %w", engineclient.ErrRequestBody, errInterrupted)
	slow := fmt.Errorf("%w: %w", engineclient.ErrRequestBody, os.ErrDeadlineExceeded)
	for name, c := range map[string]struct {
		end          ending
		before, then string // the outcomes before the headers of the response and after them
		failed       string // the outcome after an event that reports an error
	}{
		"session over":              {ending{err: over, over: true, cause: over}, traffic.SessionOver, traffic.SessionOver, traffic.SessionOver},
		"token revoked":             {ending{err: io.EOF, over: true, cause: routing.ErrRevoked}, traffic.Revoked, traffic.Revoked, traffic.Revoked},
		"lease expired":             {ending{err: io.EOF, over: true, cause: routing.ErrExpired}, traffic.LeaseOver, traffic.LeaseOver, traffic.LeaseOver},
		"suspended":                 {ending{err: caller, over: true, cause: routing.ErrSuspended}, traffic.Suspended, traffic.Suspended, traffic.Suspended},
		"caller disconnects":        {ending{err: io.EOF, over: true, cause: context.Canceled}, traffic.ClientClosed, traffic.ClientClosed, traffic.EngineError},
		"caller does not read":      {ending{err: caller}, traffic.ClientClosed, traffic.ClientClosed, traffic.EngineError},
		"caller sends half a body":  {ending{err: body}, traffic.ClientClosed, traffic.ClientClosed, traffic.EngineError},
		"caller is slow":            {ending{err: slow, over: true, cause: context.Canceled}, traffic.ClientClosed, traffic.ClientClosed, traffic.EngineError},
		"body ends in the response": {ending{err: io.EOF, sent: body}, traffic.EngineError, traffic.ClientClosed, traffic.EngineError},
		"response during the body":  {ending{err: io.EOF, sent: early}, traffic.EngineError, traffic.Truncated, traffic.EngineError},
		"engine silent":             {ending{err: engineclient.ErrTimeout}, traffic.Timeout, traffic.Timeout, traffic.EngineError},
		"engine silent for long":    {ending{err: fmt.Errorf("read: %w: %w", engineclient.ErrTimeout, os.ErrDeadlineExceeded)}, traffic.Timeout, traffic.Timeout, traffic.EngineError},
		"engine unreachable":        {ending{err: fmt.Errorf("%w: refused", engineclient.ErrUnreachable)}, traffic.Unreachable, traffic.Unreachable, traffic.EngineError},
		"connection lost":           {ending{err: engineclient.ErrConnectionLost}, traffic.EngineError, traffic.Truncated, traffic.EngineError},
		"invalid response":          {ending{err: errors.New("malformed chunk")}, traffic.EngineError, traffic.Truncated, traffic.EngineError},
	} {
		require.Equal(t, c.before, c.end.outcome(), name)
		for _, status := range []int{200, 404, 500} {
			c.end.status, c.end.failed = status, false
			require.Equal(t, c.then, c.end.outcome(), "%s: in a response of %d", name, status)
			c.end.failed = true
			require.Equal(t, c.failed, c.end.outcome(), "%s: after an error in a response of %d", name, status)
		}
	}
}

// TestExplain checks what the caller gets if a call fails before a response.
func TestExplain(t *testing.T) {
	t.Parallel()
	over := fault.New(fault.Conflict, "session_over", "it is over")
	cut := fmt.Errorf("%w: %w", engineclient.ErrRequestBody, io.ErrUnexpectedEOF)
	slow := fmt.Errorf("%w: %w", engineclient.ErrRequestBody, os.ErrDeadlineExceeded)
	for _, c := range []struct {
		cause, err error
		code       string // empty if the caller has disconnected
	}{
		{nil, engineclient.ErrTimeout, "engine_timeout"},
		{nil, engineclient.ErrUnreachable, "engine_unreachable"},
		{nil, engineclient.ErrConnectionLost, "engine_lost"},
		{nil, io.EOF, "engine_lost"},
		{nil, cut, "body_cut"},
		{nil, slow, "body_cut"},
		{context.Canceled, io.EOF, ""},
		{context.Canceled, cut, ""},
		{context.Canceled, slow, "body_cut"},
		{over, io.EOF, "session_over"},
		{over, cut, "session_over"},
		{routing.ErrRevoked, io.EOF, "token_invalid"},
		{routing.ErrExpired, cut, "lease_over"},
		{routing.ErrSuspended, slow, codeSuspended},
	} {
		ctx, end := context.WithCancelCause(t.Context())
		if c.cause != nil {
			end(c.cause)
		}
		answer := explain(ctx, c.err, endingOf(ctx, 0, c.err, nil).outcome())
		end(nil)
		require.Equal(t, c.code == "", answer == nil, "%v, %v", c.cause, c.err)
		if answer != nil {
			require.Equal(t, c.code, answer.Code, "%v, %v", c.cause, c.err)
		}
	}
}

func TestOutcomeOf_sockets(t *testing.T) {
	t.Parallel()
	for end, want := range map[socket.End]string{
		socket.Closed: traffic.OK, socket.CallerGone: traffic.ClientClosed, socket.EngineGone: traffic.Truncated, socket.CallerFault: traffic.ClientError,
		socket.EngineFault: traffic.EngineError, socket.Idle: traffic.IdleOver, socket.Drained: traffic.Draining,
	} {
		require.Equal(t, want, outcomeOf(end, routing.ErrRevoked))
	}
	for want, cause := range map[string]error{
		traffic.Revoked: routing.ErrRevoked, traffic.Suspended: routing.ErrSuspended, traffic.LeaseOver: routing.ErrExpired,
		traffic.SessionOver: fault.New(fault.Conflict, "session_over", "x"), traffic.Draining: http.ErrServerClosed,
	} {
		require.Equal(t, want, outcomeOf(socket.Cut, cause))
	}
}
