package webpage

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

//go:embed html asset
var content embed.FS

// file is a script, a style sheet or an image of the pages.
type file struct {
	hash, typ string
	data      []byte
}

// immutable is the Cache-Control header of a file whose name contains a hash of its content.
const immutable = "public, max-age=31536000, immutable"

type assets map[string]file

// load reads the pages' files. The name under which a file is served contains a hash of its content.
func load() (assets, error) {
	entries, err := fs.ReadDir(content, "asset")
	if err != nil {
		return nil, fmt.Errorf("list the page assets: %w", err)
	}
	out := assets{}
	for _, entry := range entries {
		data, err := fs.ReadFile(content, "asset/"+entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read the page assets: %w", err)
		}
		sum := sha256.Sum256(data)
		out[entry.Name()] = file{hash: hex.EncodeToString(sum[:6]), typ: typeOf(entry.Name()), data: data}
	}
	return out, nil
}

// typeOf returns the media type of a file. It does not use the host's configuration, which may differ between hosts.
func typeOf(name string) string {
	types := map[string]string{
		".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
		".json": "application/json", ".map": "application/json", ".webmanifest": "application/manifest+json",
		".txt": "text/plain", ".md": "text/markdown", ".xml": "application/xml", ".yaml": "application/yaml", ".yml": "application/yaml",
	}
	if typ := types[path.Ext(name)]; typ != "" {
		return typ + "; charset=utf-8"
	}
	binary := map[string]string{
		".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".avif": "image/avif",
		".ico": "image/x-icon", ".woff2": "font/woff2", ".woff": "font/woff", ".ttf": "font/ttf", ".wasm": "application/wasm",
	}
	return cmp.Or(binary[path.Ext(name)], "application/octet-stream")
}

// path returns the path under which a file is served: login.js is /pages/login.<hash>.js.
func (a assets) path(name string) (string, error) {
	f, ok := a[name]
	if !ok {
		return "", fmt.Errorf("page asset %q does not exist", name)
	}
	ext := path.Ext(name)
	return PathAssets + strings.TrimSuffix(name, ext) + "." + f.hash + ext, nil
}

// find returns the file for a served name and reports whether its content matches the hash in the name. While
// replicas of two versions run, a page of one version may request a file of the other. The page then gets this
// version's file, which is not cached.
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
		h.Set("Cache-Control", immutable)
	}
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Type", f.typ)
	h.Set("Content-Length", strconv.Itoa(len(f.data)))
	_, _ = w.Write(f.data) // the client may be gone
	return nil
}
