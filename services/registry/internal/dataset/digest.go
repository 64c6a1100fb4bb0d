package dataset

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Manifest returns the files sorted by path, the digest of the whole list, and the total size in bytes. It returns an
// error if the files cannot be stored in one folder or have more than limit bytes in total.
func Manifest(files []File, limit int64) (sorted []File, digest string, total int64, err error) {
	sorted = slices.Clone(files)
	slices.SortFunc(sorted, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for i, f := range sorted {
		if err := checkPath(f.Path); err != nil {
			return nil, "", 0, err
		}
		if i > 0 && sorted[i-1].Path == f.Path {
			return nil, "", 0, refused("duplicate path %s", sorted[i-1].Path)
		}
		if f.Size > limit-total {
			return nil, "", 0, fault.New(fault.TooLarge, "upload_too_large",
				"the dataset exceeds the limit of %d MiB", limit>>20)
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
