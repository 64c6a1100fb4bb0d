// Package edge is what a REST request goes through on its way to a service and back: the few headers
// and the metadata that may pass, body limits, faults as JSON with the place they belong to, the
// browser's guards, the client's address, and the log line. What its path and query may hold is
// package shape's.
//
// It promises that a service gets no header of a client that is not listed here and a client no
// metadata of a service that is not listed here, and that whatever goes wrong has a JSON body.
package edge

import (
	"context"
	"net/url"

	"google.golang.org/grpc/metadata"

	"github.com/signalbox-dev/signalbox/gateway/internal/match"
	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Call is one REST request between its route and its answer.
type Call struct {
	*match.Match
	// URL is the request's own, before its query was put into the services' words.
	URL *url.URL
	// Refused is why the request has no route, or nil.
	Refused *fault.Error
	// Late says that the request came when the gateway drained already.
	Late bool
	// Body is the request's body, or nil; it keeps the fault that decoding found.
	Body *restjson.Body
	// Resumed says that the field `after` of a stream's request came from Last-Event-ID.
	Resumed bool
	// Metadata goes with the call.
	Metadata metadata.MD
}

type callKey struct{}

// WithCall puts the call into a request's context.
func WithCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf is the call of a request's context, or nil.
func CallOf(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}
