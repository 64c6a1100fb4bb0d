package objcache

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/archive"
)

// ErrArchive reports that an archive is malformed or contains entries that are not allowed.
var ErrArchive = archive.ErrUnpack

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
	return archive.Unpack(r, dir, maxBytes, archive.Modes{File: m.file, Program: m.program, Folder: m.folder})
}
