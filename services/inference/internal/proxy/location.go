package proxy

import (
	"cmp"
	"net"
	"net/url"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/enginepath"
)

// redirect contains what is needed to translate the Location of a response, and to find the address of the engine in it.
type redirect struct {
	// engine is the host:port of the engine; a redirect to another host is not passed on.
	engine string
	// request is the path and query of the request to the engine.
	request *url.URL
	// prefix is the caller's path to the engine, without /v1.
	prefix string
}

// location returns the Location for the caller: a path below the caller's prefix that leads to what the engine named. It
// returns "" if the engine named anything else than one of its own paths below /v1, or if it sent several Locations.
func (r redirect) location(values []string) string {
	if len(values) != 1 || values[0] == "" || r.engine == "" {
		return ""
	}
	to, err := url.Parse(values[0])
	if err != nil || to.Opaque != "" || to.User != nil {
		return ""
	}
	if to.RawPath != "" {
		to.RawPath = enginepath.Sent(to)
	}
	base := *r.request
	base.Scheme, base.Host = "http", r.engine
	to = base.ResolveReference(to)
	if !r.names(to) {
		return ""
	}
	mapped := &url.URL{RawQuery: to.RawQuery, ForceQuery: to.ForceQuery, Fragment: to.Fragment, RawFragment: to.RawFragment}
	mapped.Path, mapped.RawPath = r.prefix+to.Path, r.prefix+to.EscapedPath()
	if p, verdict := enginepath.Read(mapped); verdict != enginepath.Good || p.Prefix != r.prefix {
		return ""
	}
	location := mapped.String()
	if r.namesEngine([]string{location, unescaped(location)}) {
		return "" // the query or the fragment contains the address of the engine
	}
	return location
}

// namesEngine reports whether one of the values contains the address of the engine.
func (r redirect) namesEngine(values []string) bool {
	return r.engine != "" && strings.Contains(strings.ToLower(strings.Join(values, " ")), strings.ToLower(r.engine))
}

// unescaped returns a URL without escapes, or "" if it has invalid ones.
func unescaped(u string) string {
	plain, err := url.QueryUnescape(u)
	if err != nil {
		return ""
	}
	return plain
}

// names reports whether a URL has the origin of the engine. The scheme may be https for an engine that is reached over
// http and the other way round: an engine knows only the Host header, and not how the proxy reached its node.
func (r redirect) names(u *url.URL) bool {
	port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	return port != "" && strings.EqualFold(net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)), r.engine)
}

// redirect returns how the Locations of this call are read.
func (e *exchange) redirect() redirect {
	return redirect{engine: e.engine, request: e.a.target, prefix: e.a.prefix}
}
