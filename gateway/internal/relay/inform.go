package relay

import (
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
)

// maxInforms bounds the answers of 1xx that a client is shown of one request.
const maxInforms = 8

// informer passes on what a service says before it answers, but its own 100, which is that connection's matter.
type informer struct {
	w http.ResponseWriter

	mu   sync.Mutex
	told int
	over bool
}

// watch answers the request whose exchange tells the informer. A body that flows meanwhile has the server in its
// own 100, so then nothing is told.
func (i *informer) watch(out *http.Request) *http.Request {
	if out.Body != nil && out.GetBody == nil {
		return out
	}
	return out.WithContext(httptrace.WithClientTrace(out.Context(), &httptrace.ClientTrace{Got1xxResponse: i.tell}))
}

// end comes before the answer: from then on the writer is not the informer's.
func (i *informer) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
}

func (i *informer) tell(code int, header textproto.MIMEHeader) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over || i.told == maxInforms || code <= http.StatusSwitchingProtocols {
		return nil
	}
	i.told++
	h := i.w.Header()
	kept := maps.Clone(h)
	maps.Copy(h, http.Header(header))
	oneHop(h)
	i.w.WriteHeader(code)
	clear(h)
	maps.Copy(h, kept)
	return nil
}
