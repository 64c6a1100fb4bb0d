package reverseproxy

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
)

// sentOnce keeps a call to a model from being executed twice. net/http sends a request again after a lost connection
// if a header marks it as idempotent, and clients repeat a call after 503: the engine may have worked on it in both cases.
type sentOnce struct {
	begun atomic.Bool // a part of the request was sent
	heard atomic.Bool // a part of the response has arrived
	// peer is the address of the connection, or nil if there was none.
	peer atomic.Pointer[string]
}

// withoutKeys hides the headers from net/http for which it sends a request again.
func withoutKeys(out *http.Request) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := out.Header[name]; ok {
			// net/http looks for the canonical names. On the wire, the case of a name makes no difference.
			delete(out.Header, name)
			out.Header[strings.ToLower(name)] = values
		}
	}
}

func (o *sentOnce) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			address := i.Conn.RemoteAddr().String()
			o.peer.Store(&address)
		},
		WroteHeaders:         func() { o.begun.Store(true) },
		GotFirstResponseByte: func() { o.heard.Store(true) },
	})
}

// mark sets the header with which clients do not repeat a call, if a part of it was sent.
func (o *sentOnce) mark(h http.Header) {
	if o.begun.Load() {
		h.Set("X-Should-Retry", "false")
	}
}
