package webpage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	hashes     = "csp.json" // written by the build of the documentation
	maxScripts = 100
)

// documentPolicy returns the content security policy of the documentation. Its search is WebAssembly, and the build
// lists the hashes of its inline scripts in csp.json.
func documentPolicy(docs *tree) (string, error) {
	var listed struct {
		Script []string `json:"script"`
	}
	data, err := fs.ReadFile(docs.fsys, hashes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the script hashes of the documentation: %w", err)
	}
	if err == nil {
		if err := json.Unmarshal(data, &listed); err != nil {
			return "", fmt.Errorf("read the script hashes of the documentation, %s: %w", hashes, err)
		}
	}
	delete(docs.files, hashes)
	valid := regexp.MustCompile(`^sha(256|384|512)-[A-Za-z0-9+/]{43,86}={0,2}$`)
	sources := []string{"script-src 'self' 'wasm-unsafe-eval'"}
	for _, hash := range listed.Script {
		if len(listed.Script) > maxScripts || !valid.MatchString(hash) {
			return "", fmt.Errorf("%s of the documentation must list at most %d hashes such as sha256-…; got %d, among them %q",
				hashes, maxScripts, len(listed.Script), hash)
		}
		sources = append(sources, "'"+hash+"'")
	}
	return selfOnly + strings.Join(sources, " ") + "; " + consolePolicy, nil
}

// document serves a file of the documentation. A folder is its index.html; its address ends with a slash, so that the
// relative links of the page are right.
func (p *Pages) document(w http.ResponseWriter, r *http.Request, path string) error {
	docs, name := p.site.docs, strings.TrimPrefix(path, "/")
	folder := strings.TrimPrefix(strings.TrimSuffix(name, "/")+"/"+index, "/")
	status := http.StatusOK
	switch {
	case !docs.has(index):
		return p.undocumented(w, r)
	case strings.HasSuffix(path, "/") && docs.has(folder):
		name = folder
	case docs.has(name):
	case docs.has(name + ".html"):
		name += ".html"
	case docs.has(folder):
		at := url.URL{Path: r.URL.Path + "/", RawQuery: r.URL.RawQuery}
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("Location", at.String())
		w.WriteHeader(http.StatusFound)
		return nil
	case docs.has("404.html") && html(r):
		name, status = "404.html", http.StatusNotFound
	default:
		return fault.New(fault.Absent, "", "Not Found")
	}
	head(w.Header(), p.site.docsPolicy, strings.HasPrefix(name, "_astro/"))
	return docs.serve(w, r, name, status)
}

// undocumented responds if this binary was built without the documentation.
func (p *Pages) undocumented(w http.ResponseWriter, r *http.Request) error {
	if !html(r) {
		return fault.New(fault.Unconfigured, "not_built", "this build has no documentation; run make docs and build again")
	}
	return p.show(w, "unbuilt", http.StatusNotImplemented, view{
		Title: "The documentation is not built", Command: "make docs build",
		Documents: []string{"README.md", "docs/reference/api.md", "docs/reference/operating.md", "docs/reference/settings.md", "docs/reference/errors.md"},
	})
}
