package archive

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
)

// ErrUnpack reports that an archive is malformed or contains entries that are not allowed.
var ErrUnpack = errors.New("the archive cannot be unpacked")

// Modes are the modes of unpacked files, executable files and folders.
type Modes struct {
	File, Program, Folder os.FileMode
	// Umask means that the umask of the process applies to the modes.
	Umask bool
}

// Unpack writes the regular files and folders of a tar stream, which may be gzipped, to dir. It needs no earlier Inspect. It
// returns ErrUnpack if the stream is malformed, contains an entry of another kind or outside dir, or exceeds MaxEntries or
// MaxDepth. Size is the size of the stream in bytes, and the total size of the files that it may contain; a gzip stream may
// contain 8 MiB and 200 times its size.
func Unpack(r io.Reader, dir string, size int64, m Modes) error {
	if err := os.MkdirAll(dir, m.Folder); err != nil {
		return fmt.Errorf("create the folder to unpack into: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the folder to unpack into: %w", err)
	}
	defer func() { _ = root.Close() }()
	u := unpacking{root: root, modes: m, left: size, buffer: make([]byte, bufferBytes)}
	plain, err := u.open(r)
	if err != nil {
		return errors.Join(ErrUnpack, err)
	}
	in := tar.NewReader(plain)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errors.Join(ErrUnpack, err)
		}
		if err := u.entry(header, in); err != nil {
			return err
		}
	}
}

// bufferBytes is the size of the buffers for reading and writing. A file of at most this size is written with one call.
const bufferBytes = 256 << 10

// unpacking is the state of one Unpack.
type unpacking struct {
	root    *os.Root
	modes   Modes
	left    int64
	entries int
	buffer  []byte
	made    string // the folder that was created last
}

// open returns the tar stream, decompressed if it is gzip.
func (u *unpacking) open(r io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(r, bufferBytes)
	if magic, err := in.Peek(2); err != nil || string(magic) != "\x1f\x8b" {
		return in, nil //nolint:nilerr // the tar reader reports the error
	}
	u.left = freeBytes + maxRatio*u.left
	return gzip.NewReader(in)
}

func (u *unpacking) entry(h *tar.Header, body io.Reader) error {
	name := filepath.Clean(h.Name)
	if u.entries++; u.entries > MaxEntries {
		return fmt.Errorf("%w: more than %d entries", ErrUnpack, MaxEntries)
	}
	if !filepath.IsLocal(name) || strings.Count(name, "/") >= MaxDepth {
		return fmt.Errorf("%w: entry %q is outside the folder or nested too deeply", ErrUnpack, h.Name)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.folder(name)
	case tar.TypeReg:
		return u.file(name, h, body)
	default:
		return fmt.Errorf("%w: entry %q is neither a file nor a folder", ErrUnpack, h.Name)
	}
}

func (u *unpacking) folder(name string) error {
	if name == u.made || name == "." {
		return nil
	}
	if err := u.root.MkdirAll(name, u.modes.Folder); err != nil {
		return fmt.Errorf("create folder %s: %w", name, err)
	}
	u.made = name
	return nil
}

func (u *unpacking) file(name string, h *tar.Header, body io.Reader) error {
	if u.left -= h.Size; h.Size < 0 || u.left < 0 {
		return fmt.Errorf("%w: entry %q exceeds the limit for the unpacked size", ErrUnpack, h.Name)
	}
	if err := u.folder(filepath.Dir(name)); err != nil {
		return err
	}
	mode := u.modes.File
	if h.Mode&0o100 != 0 {
		mode = u.modes.Program
	}
	out, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return fmt.Errorf("create file %s: %w", name, err)
	}
	// Hide the method ReadFrom of the file. Otherwise io.CopyBuffer would call it instead of using the buffer.
	if err = u.setMode(out, mode); err == nil {
		_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{body}, u.buffer)
	}
	if closed := out.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return errors.Join(ErrUnpack, fmt.Errorf("write %s: %w", name, err))
	}
	return nil
}

// setMode sets the mode of a new file, which may have fewer rights because of the umask.
func (u *unpacking) setMode(f *os.File, mode os.FileMode) error {
	if u.modes.Umask {
		return nil
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Perm() != mode {
		err = f.Chmod(mode)
	}
	return err
}
