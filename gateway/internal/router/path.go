package router

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/signalbox-dev/signalbox/platform/enginepath"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// enginePath returns the path by which a call to an engine is routed, as it was sent, or the fault for the client. The
// result engine is false for any other request.
func enginePath(r *http.Request) (path string, engine bool, f *fault.Error) {
	p, verdict := enginepath.Read(r.URL)
	switch {
	case verdict == enginepath.Elsewhere:
		return "", false, nil
	case verdict == enginepath.Bad || r.URL.Host != "" || r.URL.Scheme != "":
		return "", true, enginepath.BadPath()
	case verdict == enginepath.Unknown:
		return "", true, enginepath.NotFound()
	}
	if f := enginepath.BadMethod(r.Method); f != nil {
		return "", true, f
	}
	if path = p.Prefix + p.Target; strings.Count(p.Target, "/") == 1 {
		path += "/" // the pattern ends in /v1/{rest...}
	}
	return path, true, nil
}

// CheckPath refuses request targets that are not a plain absolute path. Encoded slashes, backslashes,
// dot segments, control bytes and doubly encoded bytes get 400, because a later parser may read such a path
// differently. A path with an empty segment (a double or trailing slash, an empty variable) gets 404.
func CheckPath(r *http.Request) *fault.Error {
	path := r.URL.Path
	switch {
	case r.Method == http.MethodConnect:
		return fault.New(fault.MethodNotAllowed, "", "Method Not Allowed").Wrap(&MethodError{})
	case r.URL.Host != "" || r.URL.Scheme != "" || len(path) > enginepath.MaxPath || !utf8.ValidString(path):
		return malformed()
	case !strings.HasPrefix(path, "/"):
		return fault.New(fault.Absent, "", "Not Found")
	}
	for i := range len(path) {
		if c := path[i]; c < ' ' || c == 0x7f || c == '\\' || c == '%' {
			return malformed()
		}
	}
	if raw := r.URL.RawPath; raw != "" && strings.Contains(strings.ToLower(raw), "%2f") {
		return malformed()
	}
	return segments(path)
}

// CheckPagePath is CheckPath for pages, whose path may be / or end with a slash.
func CheckPagePath(r *http.Request) *fault.Error {
	page := *r.URL
	page.Path = strings.TrimSuffix(page.Path, "/")
	if page.Path == "" && r.URL.Path == "/" {
		return nil
	}
	return CheckPath(&http.Request{Method: r.Method, URL: &page})
}

func segments(path string) *fault.Error {
	for segment := range strings.SplitSeq(path[1:], "/") {
		switch segment {
		case ".", "..":
			return malformed()
		case "":
			return fault.New(fault.Absent, "", "Not Found")
		}
	}
	return nil
}

func malformed() *fault.Error { return fault.New(fault.Refused, "path", "malformed path") }
