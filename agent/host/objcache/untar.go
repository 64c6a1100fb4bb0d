package objcache

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// Limits of an archive. The entries of an uncompressed archive must not be larger in total than the archive
// itself.
const (
	maxEntries = 100_000
	maxDepth   = 32
	// A gzip archive may unpack to at most packedBytes + maxRatio * packed size. platform/archive has similar limits.
	maxRatio    = 200
	packedBytes = 8 << 20
)

// ErrArchive reports that an archive is malformed or contains entries that are not allowed.
var ErrArchive = errors.New("the archive cannot be unpacked")

func unpackFile(path, dir string, ref executor.ObjectRef, m modes) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open an object: %w", err)
	}
	defer func() { _ = f.Close() }()
	// Verify the complete file before unpacking its first entry.
	if err := copyVerified(io.Discard, f, ref); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("return to the beginning of an object: %w", err)
	}
	if err := unpack(f, dir, ref.SizeBytes, m); err != nil {
		return errors.Join(executor.ErrPermanent, fmt.Errorf("unpack %s: %w", ref.URI, err))
	}
	return nil
}

// Unpack writes the regular files and folders of a tar stream, which may be gzipped, to dir. It returns ErrArchive if
// the stream is malformed or exceeds a limit, or if it contains an entry of another kind or outside dir. maxBytes is
// the size of the stream.
func Unpack(r io.Reader, dir string, maxBytes int64) error {
	return unpack(r, dir, maxBytes, private())
}

func unpack(r io.Reader, dir string, maxBytes int64, m modes) error {
	if err := os.MkdirAll(dir, m.folder); err != nil {
		return fmt.Errorf("create the folder to unpack into: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the folder to unpack into: %w", err)
	}
	defer func() { _ = root.Close() }()
	u := unpacking{root: root, modes: m, left: maxBytes, buffer: make([]byte, bufferBytes)}
	plain, err := opened(r, &u)
	if err != nil {
		return errors.Join(ErrArchive, err)
	}
	archive := tar.NewReader(plain)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errors.Join(ErrArchive, err)
		}
		if err := u.entry(header, archive); err != nil {
			return err
		}
	}
}

// opened returns the tar stream, decompressed if it is gzip. The control plane has already checked the
// complete archive with the same limits for the unpacked size.
func opened(r io.Reader, u *unpacking) (io.Reader, error) {
	in := bufio.NewReaderSize(r, bufferBytes)
	if magic, err := in.Peek(2); err != nil || string(magic) != "\x1f\x8b" {
		return in, nil //nolint:nilerr // the tar reader reports the error
	}
	u.left = packedBytes + maxRatio*u.left
	return gzip.NewReader(in)
}

// bufferBytes is the size of the buffers for reading and writing. A file of at most this size is written with one call.
const bufferBytes = 256 << 10

type unpacking struct {
	root    *os.Root
	modes   modes
	left    int64
	entries int
	buffer  []byte
	made    string // the folder that was created last
}

func (u *unpacking) entry(h *tar.Header, body io.Reader) error {
	name := filepath.Clean(h.Name)
	if u.entries++; u.entries > maxEntries {
		return fmt.Errorf("%w: more than %d entries", ErrArchive, maxEntries)
	}
	if !filepath.IsLocal(name) || strings.Count(name, "/") >= maxDepth {
		return fmt.Errorf("%w: entry %q is outside the folder or nested too deeply", ErrArchive, h.Name)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.folder(name)
	case tar.TypeReg:
		return u.file(name, h, body)
	default:
		return fmt.Errorf("%w: entry %q is neither a file nor a folder", ErrArchive, h.Name)
	}
}

func (u *unpacking) folder(name string) error {
	if name == u.made || name == "." {
		return nil
	}
	if err := u.root.MkdirAll(name, u.modes.folder); err != nil {
		return fmt.Errorf("create folder %s: %w", name, err)
	}
	u.made = name
	return nil
}

func (u *unpacking) file(name string, h *tar.Header, body io.Reader) error {
	if u.left -= h.Size; h.Size < 0 || u.left < 0 {
		return fmt.Errorf("%w: entry %q exceeds the limit for the unpacked size", ErrArchive, h.Name)
	}
	if err := u.folder(filepath.Dir(name)); err != nil {
		return err
	}
	mode := u.modes.file
	if h.Mode&0o100 != 0 {
		mode = u.modes.program
	}
	out, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return fmt.Errorf("create file %s: %w", name, err)
	}
	// Hide the method ReadFrom of the file. Otherwise io.CopyBuffer would call it instead of using the buffer.
	if err = setMode(out, mode); err == nil {
		_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{body}, u.buffer)
	}
	if closed := out.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return errors.Join(ErrArchive, fmt.Errorf("write %s: %w", name, err))
	}
	return nil
}
