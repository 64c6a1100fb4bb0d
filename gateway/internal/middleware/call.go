// Package middleware contains the steps that a REST request passes on its way to a service and back: the list of
// headers and metadata that may pass, body limits, JSON error bodies with the location of each fault,
// browser protection, the client's address, and the log line. Package router checks the path and the query.
//
// Package middleware promises that a service receives only the client headers listed here, that a client receives only
// the service metadata listed here, and that every failure has a JSON body.
package middleware

import (
	"context"
	"net/url"

	"google.golang.org/grpc/metadata"

	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/gateway/internal/router"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Call is the state of one REST request.
type Call struct {
	*router.Match
	// URL is the request's original URL, before its query is rewritten for the generated handlers.
	URL *url.URL
	// Refused is the fault of a request that has no route or names a host that is not allowed; otherwise nil.
	Refused *fault.Error
	// Late reports that the request arrived after draining had begun.
	Late bool
	// Body is the request's body, or nil. After decoding it also holds the decoder's fault.
	Body *restjson.Body
	// Resumed reports whether the field `after` of a stream's request was set from the header Last-Event-ID.
	Resumed bool
	// Metadata is sent with the call.
	Metadata metadata.MD
}

type callKey struct{}

// WithCall returns a context that carries c.
func WithCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf returns the call that ctx carries, or nil.
func CallOf(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}
