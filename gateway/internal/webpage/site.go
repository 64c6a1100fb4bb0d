package webpage

import (
	"io/fs"
	"net/http"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// The content security policy of the console is selfOnly and consolePolicy. Some of its libraries set inline styles.
const (
	selfOnly      = "default-src 'self'; "
	consolePolicy = "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'"
)

const index = "index.html"

// site is the console and the documentation.
type site struct {
	console, docs *tree
	docsPolicy    string
}

// newSite reads the two builds; nil means the build in this binary.
func newSite(console, docs fs.FS) (s *site, err error) {
	s = &site{}
	if s.console, err = openTree("console", console); err != nil {
		return nil, err
	}
	if s.docs, err = openTree("docs", docs); err != nil {
		return nil, err
	}
	s.docsPolicy, err = documentPolicy(s.docs)
	return s, err
}

// reserved reports whether a path belongs to the API or to another part of the server that has no pages, so that a
// mistake in it stays an error that a program can read.
func reserved(path string) bool {
	first, _, _ := strings.Cut(path[1:], "/")
	switch first {
	case "api", "inference", "healthz", "readyz", "metrics", "debug", "pages":
		return true
	}
	return strings.HasPrefix(first, ".")
}

// Site returns the pattern of a request for the console or the documentation that no route takes, and reports whether
// it is one: a built file, or any other path that a browser opens as a page.
func (p *Pages) Site(r *http.Request) (string, bool) {
	path := r.URL.Path
	if r.Method != http.MethodGet && r.Method != http.MethodHead || reserved(path) {
		return "", false
	}
	switch {
	case path == PathDocs || strings.HasPrefix(path, PathDocs+"/"):
		return PathDocs + "/{page...}", true
	case strings.HasPrefix(path, PathFiles):
		return PathFiles + "{file...}", true
	default:
		return "/{page...}", html(r) || p.site.console.has(path[1:])
	}
}

// html reports whether the client shows web pages.
func html(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// page serves a request that Site has accepted.
func (p *Pages) page(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Path == PathDocs || strings.HasPrefix(r.URL.Path, PathDocs+"/") {
		return p.document(w, r, strings.TrimPrefix(r.URL.Path, PathDocs))
	}
	console, name := p.site.console, r.URL.Path[1:]
	asset := strings.HasPrefix(r.URL.Path, PathFiles)
	switch {
	case console.has(name):
	case asset:
		return fault.New(fault.Absent, "", "Not Found")
	case !console.has(index):
		return p.show(w, "unbuilt", http.StatusNotImplemented, view{Title: "The console is not built", Command: "make build"})
	default:
		name = index
	}
	head(w.Header(), selfOnly+consolePolicy, asset)
	w.Header().Set("X-Robots-Tag", "noindex")
	return console.serve(w, r, name, http.StatusOK)
}

// head sets the headers of a built file. Only files with a hash in their name may be used from a cache without a request.
func head(h http.Header, policy string, hashed bool) {
	isolate(h)
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-cache")
	if hashed {
		h.Set("Cache-Control", immutable)
	}
}
