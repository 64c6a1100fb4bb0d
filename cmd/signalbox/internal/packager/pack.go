package packager

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Pack writes the files as a gzipped tar. It returns a *RefusedError, or ErrEmpty, and writes nothing if files were
// refused or there are none, and ErrChanged if a file differs from what List has examined.
func (l *Listing) Pack(ctx context.Context, out io.Writer) error {
	if err := l.Err(); err != nil {
		return err
	}
	if l.Packed == 0 {
		return ErrEmpty
	}
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		return fmt.Errorf("open the folder: %w", err)
	}
	defer func() { _ = root.Close() }()
	packed := gzip.NewWriter(out) // its header has no time and no name
	members := tar.NewWriter(packed)
	for _, f := range l.Files {
		if f.Excluded != "" {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := write(members, root, f); err != nil {
			return fmt.Errorf("pack %s: %w", shown(f.Path), err)
		}
	}
	return errors.Join(members.Close(), packed.Close())
}

// write writes a file as a member of a tar.
func write(members *tar.Writer, root *os.Root, f File) error {
	h := &tar.Header{Name: f.Path, Typeflag: tar.TypeReg, Mode: int64(f.Mode), Size: f.Size, ModTime: time.Unix(0, 0)}
	if strings.HasSuffix(f.Path, "/") {
		h.Typeflag = tar.TypeDir
		return members.WriteHeader(h)
	}
	in, err := root.Open(filepath.FromSlash(f.Path))
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if err := members.WriteHeader(h); err != nil {
		return err
	}
	digest := sha256.New()
	// One byte more than expected shows that the file has grown.
	n, err := io.Copy(digest, io.TeeReader(io.LimitReader(in, f.Size), members))
	if err != nil {
		return err
	}
	more, err := in.Read(make([]byte, 1))
	if err != nil && !atEnd(err) {
		return err
	}
	if n != f.Size || more > 0 || hex.EncodeToString(digest.Sum(nil)) != f.SHA256 {
		return ErrChanged
	}
	return nil
}

func atEnd(err error) bool { return errors.Is(err, io.EOF) }
