package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

//go:embed html asset
var content embed.FS

// file is a script, a style or a picture of the pages.
type file struct {
	hash, typ string
	data      []byte
}

type assets map[string]file

// load reads the pages' files. Each is served under a name that changes with its content.
func load() (assets, error) {
	entries, err := fs.ReadDir(content, "asset")
	if err != nil {
		return nil, fmt.Errorf("list the pages' files: %w", err)
	}
	out := assets{}
	for _, entry := range entries {
		data, err := fs.ReadFile(content, "asset/"+entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read the pages' files: %w", err)
		}
		sum := sha256.Sum256(data)
		out[entry.Name()] = file{hash: hex.EncodeToString(sum[:6]), typ: typeOf(entry.Name()), data: data}
	}
	return out, nil
}

// typeOf does not ask the machine, whose tables may say something else.
func typeOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml; charset=utf-8"
	default:
		return mime.FormatMediaType("application/octet-stream", nil)
	}
}

// path is where a page finds a file: login.js is /pages/login.<hash>.js.
func (a assets) path(name string) (string, error) {
	f, ok := a[name]
	if !ok {
		return "", fmt.Errorf("no file %q", name)
	}
	ext := path.Ext(name)
	return PathAssets + strings.TrimSuffix(name, ext) + "." + f.hash + ext, nil
}

// find answers the file that a served name means, and whether it is that very content. While replicas of
// two versions serve, a page of the one may ask the other: it gets the file as it is here, unkept.
func (a assets) find(served string) (f file, exact, ok bool) {
	ext := path.Ext(served)
	base := strings.TrimSuffix(served, ext)
	hash := strings.TrimPrefix(path.Ext(base), ".")
	f, ok = a[strings.TrimSuffix(base, "."+hash)+ext]
	return f, ok && f.hash == hash, ok && hash != ""
}

func (p *Pages) asset(w http.ResponseWriter, r *http.Request) error {
	f, exact, ok := p.assets.find(strings.TrimPrefix(r.URL.Path, PathAssets))
	if !ok {
		return fault.New(fault.Absent, "", "Not Found")
	}
	h := w.Header()
	if exact {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Type", f.typ)
	h.Set("Content-Length", strconv.Itoa(len(f.data)))
	_, _ = w.Write(f.data) // a client that is gone needs no answer
	return nil
}
