// Package archive judges archives that people submit before anything unpacks them: tar files, plain or in gzip.
//
// It promises, of an archive that passes, that every member is a plain file or folder whose path stays inside
// the folder that it is unpacked into, on file systems that tell upper from lower case and on those that do not;
// that no file is one that holds secrets by its name; and that all of it is no larger than the limit, also for
// a reader that unpacks whatever follows the end. It reads bytes once and keeps none.
//
// A refusal is a fault that names its gate, as those of submissions do: package, or sensitive_file.
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

// The gates that refuse an archive.
const (
	GatePackage   = "package"
	GateSensitive = "sensitive_file"
)

// The bounds that no installation moves.
const (
	// MaxEntries is the most members.
	MaxEntries = 100_000
	// MaxDepth is the most folders above a file.
	MaxDepth = 32
	// maxRatio is how many bytes one packed byte may become, once there are more than freeBytes of them.
	maxRatio  = 200
	freeBytes = 8 << 20
)

// Facts are what an archive has.
type Facts struct {
	Entries int
	// Bytes of all files.
	Bytes int64
}

// Inspect reads an archive of so many packed bytes to its end; limit is the most that it may unpack to.
func Inspect(r io.Reader, packed, limit int64) (Facts, error) {
	in := bufio.NewReader(r)
	w := &walk{limit: limit, names: map[string]bool{}}
	plain, err := w.open(in, packed)
	if err != nil {
		return Facts{}, err
	}
	if err := w.members(tar.NewReader(plain)); err != nil {
		return Facts{}, w.told(err)
	}
	// What follows the end of a tar is not looked at by this reader; others go on.
	if _, err := io.Copy(io.Discard, plain); err != nil {
		return Facts{}, w.told(err)
	}
	return w.facts, nil
}

// walk is one reading of one archive.
type walk struct {
	limit int64
	facts Facts
	// names are the folded paths that are taken: true for a file, false for a folder.
	names map[string]bool
	from  *counted
}

// open takes the gzip off, where there is one, and bounds what comes out.
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
		return nil, w.told(err)
	}
	w.from.from, w.from.packed = unpacked, packed
	return w.from, nil
}

func (w *walk) members(in *tar.Reader) error {
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			if w.facts.Entries == 0 {
				return refuse("it is empty, or no tar file")
			}
			return nil
		}
		if err != nil {
			return err
		}
		if w.facts.Entries++; w.facts.Entries > MaxEntries {
			return refuse("it has more than %d members", MaxEntries)
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

// told makes what is wrong with the archive a refusal; an error of the reader behind stays one.
func (w *walk) told(err error) error {
	var known *fault.Error
	switch {
	case errors.As(err, &known):
		return err
	case w.from.broken != nil:
		return fmt.Errorf("read an archive: %w", err)
	default:
		return refuse("it is no tar file that can be read to its end")
	}
}

func refuse(format string, args ...any) error {
	return fault.New(fault.Refused, GatePackage, GatePackage+": "+format, args...)
}

func tooLarge(limit int64) error {
	return fault.New(fault.TooLarge, GatePackage, GatePackage+": it unpacks to more than the %d MiB that this installation takes", limit>>20)
}
