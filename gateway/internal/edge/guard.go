package edge

import (
	"fmt"
	"net/http"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Guard keeps browsers from being turned against the API.
type Guard struct {
	origin *http.CrossOriginProtection
	https  bool
}

// NewGuard trusts the public URL's own origin.
func NewGuard(publicOrigin string, https bool) (*Guard, error) {
	g := &Guard{origin: http.NewCrossOriginProtection(), https: https}
	if publicOrigin != "" {
		if err := g.origin.AddTrustedOrigin(publicOrigin); err != nil {
			return nil, fmt.Errorf("public URL: %w", err)
		}
	}
	return g, nil
}

// Check refuses a changing request that a page of another origin sent.
func (g *Guard) Check(r *http.Request) *fault.Error {
	if err := g.origin.Check(r); err != nil {
		return fault.New(fault.Forbidden, "cross_origin", "cross-origin requests are not allowed").Wrap(err)
	}
	return nil
}

// Headers sets what every answer of the API tells browsers: it is data, for this page alone.
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

// SharePrefix is where every route of public links begins.
const SharePrefix = "/api/share/"

// Shared sets what an answer of a public link tells besides: it is for no index, and not even data of this page.
func (g *Guard) Shared(h http.Header) {
	h.Set("X-Robots-Tag", "noindex, nofollow")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
}
