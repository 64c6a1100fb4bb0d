// Package archive validates uploaded archives, which are tar files, plain or gzipped, before they are unpacked, and unpacks
// the tar files of folders.
//
// An archive that passes Inspect has these properties:
//   - every member is a regular file or a folder, and its path stays inside the folder it is unpacked into,
//     on case-sensitive and on case-insensitive file systems;
//   - no file has a name that usually holds secrets;
//   - the total size of the files is within the limit. The headers, the padding and any data after the end of the
//     tar, which some readers unpack, add at most 256 MiB.
//
// Inspect reads the bytes once and stores none of them.
//
// The error for a rejected archive is a fault. Its code names the admission gate, which is the check that rejected the
// archive: package or sensitive_file.
package archive

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// The admission gates (checks) that can reject an archive. Their names are the codes of the errors.
const (
	GatePackage   = "package"
	GateSensitive = "sensitive_file"
)

// Limits that are not configurable.
const (
	// MaxEntries is the maximum number of members.
	MaxEntries = 100_000
	// MaxDepth is the maximum number of segments in a member's path.
	MaxDepth = 32
	// maxPath is the maximum size of a member's path in bytes.
	maxPath = 1024
	// maxName is the maximum size of a segment of a path in bytes. File systems do not accept longer ones.
	maxName = 255
	// maxRatio is the maximum ratio of unpacked to packed bytes. It applies once more than freeBytes are unpacked.
	maxRatio  = 200
	freeBytes = 8 << 20
)

// Facts describes an inspected archive.
type Facts struct {
	Entries int
	Bytes   int64 // total size of all files
}

// Inspect reads an archive to its end and validates it. The parameter packed is the size of the upload in bytes, and
// limit is the maximum total size of the unpacked files in bytes.
func Inspect(r io.Reader, packed, limit int64) (Facts, error) {
	in := bufio.NewReader(r)
	w := &walk{limit: limit, names: map[string]bool{}}
	plain, err := w.open(in, packed)
	if err != nil {
		return Facts{}, err
	}
	if err := w.members(tar.NewReader(plain)); err != nil {
		return Facts{}, w.classify(err)
	}
	// archive/tar stops at the end marker. Some other readers continue, so limit the rest too.
	if _, err := io.Copy(io.Discard, plain); err != nil {
		return Facts{}, w.classify(err)
	}
	return w.facts, nil
}

// walk is the state of one inspection.
type walk struct {
	limit int64
	facts Facts
	// names holds the lower-cased paths seen so far: true for a file, false for a folder.
	names map[string]bool
	from  *counted
}

// open returns a reader of the tar, which it decompresses if necessary. The reader fails if the tar exceeds the limits.
func (w *walk) open(in *bufio.Reader, packed int64) (io.Reader, error) {
	magic, err := in.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read an archive: %w", err)
	}
	w.from = &counted{from: in, most: w.limit + overhead}
	if string(magic) != "\x1f\x8b" {
		return w.from, nil
	}
	unpacked, err := gzip.NewReader(in)
	if err != nil {
		return nil, w.classify(err)
	}
	w.from.from, w.from.packed = unpacked, packed
	return w.from, nil
}

func (w *walk) members(in *tar.Reader) error {
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			if w.facts.Entries == 0 {
				return refuse("the package is empty or not a tar file")
			}
			return nil
		}
		if err != nil {
			return err
		}
		if w.facts.Entries++; w.facts.Entries > MaxEntries {
			return refuse("the package has more than %d members", MaxEntries)
		}
		if err := w.member(h); err != nil {
			return err
		}
		if h.Size > w.limit-w.facts.Bytes {
			return tooLarge(w.limit)
		}
		w.facts.Bytes += h.Size
	}
}

// classify turns an error in the archive itself into a fault. An error of the underlying reader does not become a
// fault.
func (w *walk) classify(err error) error {
	var known *fault.Error
	switch {
	case errors.As(err, &known):
		return err
	case w.from.broken != nil:
		return fmt.Errorf("read an archive: %w", err)
	default:
		return refuse("the package is not a complete tar file")
	}
}

func refuse(format string, args ...any) error {
	return fault.New(fault.Refused, GatePackage, GatePackage+": "+format, args...)
}

func tooLarge(limit int64) error {
	return fault.New(fault.TooLarge, GatePackage,
		GatePackage+": the package unpacks to more than the installation's limit of %d MiB", limit>>20)
}
