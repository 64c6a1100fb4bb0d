package webpage

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// serve writes a file of the tree in the best content coding that the client accepts.
func (t *tree) serve(w http.ResponseWriter, r *http.Request, name string, status int) error {
	file, h := t.files[name], w.Header()
	content := file.plain
	if len(file.variants) > 0 {
		h.Set("Vary", "Accept-Encoding")
	}
	for _, coding := range []string{"br", "gzip"} {
		if v := file.variants[coding]; v != nil && accepts(r, coding) {
			content = v
			h.Set("Content-Encoding", coding)
			break
		}
	}
	tag, err := content.tag()
	if err != nil {
		return err
	}
	if status == http.StatusOK {
		h.Set("Etag", tag)
		if strings.Contains(r.Header.Get("If-None-Match"), tag) {
			h.Del("Content-Encoding")
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	f, err := t.fsys.Open(content.name)
	if err != nil {
		return fmt.Errorf("open a built page: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	h.Set("Content-Type", typeOf(name))
	h.Set("Content-Length", strconv.FormatInt(content.size, 10))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.Copy(w, f) // the client may be gone
	}
	return nil
}

// accepts reports whether the client accepts a content coding (RFC 9110 12.5.3). A coding with the weight 0 is refused.
func accepts(r *http.Request, coding string) bool {
	for _, line := range r.Header.Values("Accept-Encoding") {
		for each := range strings.SplitSeq(line, ",") {
			name, parameter, _ := strings.Cut(each, ";")
			if !strings.EqualFold(strings.TrimSpace(name), coding) {
				continue
			}
			weight, ok := strings.CutPrefix(strings.ReplaceAll(parameter, " ", ""), "q=")
			q, err := strconv.ParseFloat(weight, 64)
			return !ok || err == nil && q > 0
		}
	}
	return false
}
