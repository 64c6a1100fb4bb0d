package webpage

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
)

// The folders contain only .gitkeep unless scripts have built the console or the documentation into them.
//
//go:embed all:console all:docs
var builds embed.FS

// tree is the built files of the console or of the documentation, by name. A name that is not in the tree cannot be
// read, whatever the path of a request is.
type tree struct {
	files map[string]*built
	fsys  fs.FS
}

// built is one file and its compressed variants, which the build has written beside it.
type built struct {
	plain    *variant
	variants map[string]*variant // by content coding: br, gzip
}

// variant is the content of a file in one content coding. Its tag is a hash of the content.
type variant struct {
	name string
	size int64
	tag  func() (string, error)
}

// openTree reads the names of the files of the build with the given name. If fsys is nil, the files are those in this
// binary. It reads no content, so that a large site does not delay the start.
func openTree(name string, fsys fs.FS) (*tree, error) {
	if fsys == nil {
		var err error
		if fsys, err = fs.Sub(builds, name); err != nil {
			return nil, fmt.Errorf("open the built pages: %w", err)
		}
	}
	t := &tree{files: map[string]*built{}, fsys: fsys}
	sizes := map[string]int64{}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), ".") {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			sizes[name] = info.Size()
		}
		return err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return nil, fmt.Errorf("list the built pages of %s: %w", name, err)
	}
	for name, size := range sizes {
		t.files[name] = &built{plain: t.variant(name, size), variants: map[string]*variant{}}
	}
	for coding, ending := range map[string]string{"br": ".br", "gzip": ".gz"} {
		for name, size := range sizes {
			if base, ok := strings.CutSuffix(name, ending); ok && t.files[base] != nil {
				t.files[base].variants[coding] = t.variant(name, size)
				delete(t.files, name)
			}
		}
	}
	return t, nil
}

func (t *tree) variant(name string, size int64) *variant {
	return &variant{name: name, size: size, tag: sync.OnceValues(func() (string, error) {
		f, err := t.fsys.Open(name)
		if err != nil {
			return "", fmt.Errorf("read a built page: %w", err)
		}
		defer f.Close() //nolint:errcheck // only read
		sum := sha256.New()
		if _, err := io.Copy(sum, f); err != nil {
			return "", fmt.Errorf("read the built page %s: %w", name, err)
		}
		return `"` + hex.EncodeToString(sum.Sum(nil)[:16]) + `"`, nil
	})}
}

// has reports whether the tree contains the file.
func (t *tree) has(name string) bool { return t.files[name] != nil }
