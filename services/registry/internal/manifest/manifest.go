// Package manifest owns the lists of files that define versions of datasets and models. The bytes of the files are
// objects of the object store. Clients upload those that are missing with signed URLs, and a version is complete when every
// object exists with the size and the digest in the list.
package manifest

import (
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// File is one file of a version.
type File struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// checkPath accepts only clean relative paths that stay inside their folder.
func checkPath(p string) error {
	bad := p == "." || p != path.Clean(p) || path.IsAbs(p) || p == ".." || strings.HasPrefix(p, "../") ||
		strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' })
	if bad {
		return refused("path %q must be relative and must not contain a . or .. element, a double or trailing slash, a backslash or a control character", p)
	}
	return nil
}

func refused(format string, args ...any) error {
	return fault.New(fault.Refused, "manifest", format, args...)
}

// New returns the files sorted by path, the digest of the whole list, and the total size in bytes. It returns an
// error if the files cannot be stored in one folder, or if one has more than limit bytes; that error ends with the remedy.
func New(files []File, limit int64, remedy string) (sorted []File, digest string, total int64, err error) {
	sorted = slices.Clone(files)
	slices.SortFunc(sorted, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for i, f := range sorted {
		if err := checkPath(f.Path); err != nil {
			return nil, "", 0, err
		}
		if i > 0 && sorted[i-1].Path == f.Path {
			return nil, "", 0, refused("duplicate path %s", sorted[i-1].Path)
		}
		if f.Size > limit {
			return nil, "", 0, fault.New(fault.TooLarge, "upload_too_large",
				"file %s exceeds the limit of %d MiB for one upload; %s", f.Path, limit>>20, remedy)
		}
		if f.Size > math.MaxInt64-total {
			return nil, "", 0, fault.New(fault.TooLarge, "upload_too_large", "the files together are too large")
		}
		total += f.Size
	}
	if err := checkFolders(sorted); err != nil {
		return nil, "", 0, err
	}
	raw, err := json.Marshal(sorted)
	if err != nil {
		return nil, "", 0, fmt.Errorf("write a manifest: %w", err)
	}
	digest, err = canon.Digest(raw)
	return sorted, digest, total, err
}

// checkFolders rejects a path that is both a file and a folder.
func checkFolders(files []File) error {
	names := make(map[string]bool, len(files))
	for _, f := range files {
		names[f.Path] = true
	}
	for _, f := range files {
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			if names[dir] {
				return refused("path %s is both a file and a folder", dir)
			}
		}
	}
	return nil
}
