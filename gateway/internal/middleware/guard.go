package middleware

import (
	"fmt"
	"net/http"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Guard protects the API against requests that pages of other sites make a browser send.
type Guard struct {
	origin *http.CrossOriginProtection
	https  bool
}

// NewGuard returns a guard that trusts the origin of the public URL.
func NewGuard(publicOrigin string, https bool) (*Guard, error) {
	g := &Guard{origin: http.NewCrossOriginProtection(), https: https}
	if publicOrigin != "" {
		if err := g.origin.AddTrustedOrigin(publicOrigin); err != nil {
			return nil, fmt.Errorf("public URL: %w", err)
		}
	}
	return g, nil
}

// Check refuses a request other than GET, HEAD and OPTIONS that a page of another origin sent.
func (g *Guard) Check(r *http.Request) *fault.Error {
	if err := g.origin.Check(r); err != nil {
		return fault.New(fault.Forbidden, "cross_origin", "cross-origin requests are not allowed").Wrap(err)
	}
	return nil
}

// Headers sets headers that forbid browsers to guess the type of an API response, to show it in a frame, to store it or
// to load anything for it. If the installation uses https, another header makes browsers use only https.
func (g *Guard) Headers(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	if g.https {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// SharePrefix is the path prefix of the routes that serve public links.
const SharePrefix = "/api/share/"

// Shared sets the additional headers of a public link's response: search engines must not index it. Browsers
// sandbox it, so that it cannot access this origin.
func (g *Guard) Shared(h http.Header) {
	h.Set("X-Robots-Tag", "noindex, nofollow")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
}
