package reverseproxy

import (
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
)

// maxInforms is the maximum number of 1xx responses that a client gets for one request.
const maxInforms = 8

// informer forwards a service's 1xx responses, except 100 Continue, which concerns only the connection to the service.
type informer struct {
	w http.ResponseWriter

	mu   sync.Mutex
	sent int
	over bool
}

// watch returns a copy of the request whose 1xx responses go to the informer. If the request streams a body, watch
// returns the request itself, because net/http's server may write its own 100 Continue while the body streams. It also
// returns the request itself for a client of HTTP/1.0, which would take a 1xx response for the final one.
func (i *informer) watch(out *http.Request) *http.Request {
	if out.Body != nil && out.GetBody == nil || !out.ProtoAtLeast(1, 1) {
		return out
	}
	return out.WithContext(httptrace.WithClientTrace(out.Context(), &httptrace.ClientTrace{Got1xxResponse: i.forward}))
}

// end stops the informer; it must be called before the final response is written.
func (i *informer) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
}

func (i *informer) forward(code int, header textproto.MIMEHeader) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over || i.sent == maxInforms || code <= http.StatusSwitchingProtocols {
		return nil
	}
	i.sent++
	h := i.w.Header()
	kept := maps.Clone(h)
	maps.Copy(h, http.Header(header))
	oneHop(h)
	i.w.WriteHeader(code)
	clear(h)
	maps.Copy(h, kept)
	return nil
}
