package webpage

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/obs"
)

type failure struct {
	Title, Text, RequestID string
	Again                  bool
}

// fail shows an error page to a browser and writes the API's error to other clients.
func (p *Pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	if !html(r) {
		p.deps.Fail(w, r, err)
		return
	}
	requestID := obs.RequestID(r.Context())
	f, rendered := fault.From(err), fault.Render(err, requestID)
	for _, name := range []string{"Retry-After", "Connection"} {
		if value := rendered.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	shown := &failure{Title: "Something went wrong", Text: sentence(f.Text()), RequestID: requestID, Again: true}
	switch {
	case r.URL.Path == PathCallback || r.URL.Path == PathStart:
		shown.Title = "Sign-in failed"
	case f.Kind == fault.Absent:
		shown.Title, shown.Again = "Page not found", false
	}
	if failed := p.show(w, "failed", rendered.Status, view{Title: shown.Title, Failed: shown}); failed != nil {
		p.deps.Fail(w, r, err)
	}
}

// sentence returns a fault's text with a capital letter and a full stop.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(text[size:], ".") + "."
}
