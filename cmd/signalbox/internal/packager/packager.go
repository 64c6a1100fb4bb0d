// Package packager packs the folder of a user's code for a job. It promises:
//   - the bytes of a package depend on nothing but the paths of the files, their contents and whether their owner may execute them;
//   - no file is packed whose name or content suggests a secret. Such a file is a refusal, which no pattern can overrule; only
//     files that are excluded are not examined;
//   - nothing outside the folder is read, and what is packed is what was examined;
//   - the files, their number and their size are within the limits of the server.
//
// Files are excluded by the patterns in `.gitignore` and `.signalboxignore`, of the folder and of the folders in it, in the syntax
// of gitignore. Files of patterns above the folder, and the settings of git, are not read.
package packager

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/archive"
)

// Limits bounds a package.
type Limits struct {
	// Files is the maximum number of files and empty folders.
	Files int
	// Bytes is the maximum total size of the files.
	Bytes int64
}

// DefaultLimits returns the limits of a server with default settings.
func DefaultLimits() Limits {
	const bytes = 4096 << 20
	return Limits{Files: archive.MaxEntries, Bytes: bytes}
}

// maxSeen bounds the files and folders that are looked at, with those that are excluded.
const maxSeen = 1_000_000

// File is a file of a folder, or an empty or excluded folder, whose path ends in a slash.
type File struct {
	// Path is relative to the folder, with slashes.
	Path string
	// Size is the size in bytes; 0 for folders and excluded files.
	Size int64
	// Mode is 0644, or 0755 for folders and for files that their owner may execute.
	Mode fs.FileMode
	// SHA256 is the digest of the content in hexadecimal; empty for folders and excluded files.
	SHA256 string
	// Excluded states why the file is not packed: the pattern with its place, or another reason. It is empty if the file is packed.
	Excluded string
}

// Refusal is a file that cannot be packed and is not excluded.
type Refusal struct {
	Path string
	// Rule names what is wrong with the file.
	Rule string
	// Line is the line of a secret, from 1; 0 if there is none, as for names.
	Line int
}

// String returns the refusal for people.
func (r Refusal) String() string {
	if r.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", shown(r.Path), r.Line, r.Rule)
	}
	return shown(r.Path) + ": " + r.Rule
}

// shown returns a path for people: what is not printable in it is escaped.
func shown(path string) string {
	quoted := strconv.Quote(path)
	if inner := quoted[1 : len(quoted)-1]; inner != path {
		return quoted
	}
	return path
}

// RefusedError reports that a folder has files that cannot be packed.
type RefusedError struct{ Refusals []Refusal }

// Error implements error. It names the first refusals.
func (e *RefusedError) Error() string {
	const most = 20
	var out strings.Builder
	out.WriteString("files of the folder cannot be sent: ")
	for i, r := range e.Refusals {
		if i == most {
			fmt.Fprintf(&out, " and %d more", len(e.Refusals)-most)
			break
		}
		if i > 0 {
			out.WriteString(", ")
		}
		out.WriteString(r.String())
	}
	out.WriteString("; remove them, or exclude them in " + OwnIgnoreFile)
	return out.String()
}

var (
	// ErrLimit reports that a folder has more files or bytes than a package may have.
	ErrLimit = errors.New("too large for a package")
	// ErrEmpty reports that a folder has no file that is packed.
	ErrEmpty = errors.New("the folder has no files to pack")
	// ErrChanged reports that a file changed after it was examined.
	ErrChanged = errors.New("the file changed while the folder was packed; run it again when nothing writes to the folder")
	// errLarge reports that a file has more bytes than are left.
	errLarge = errors.New("too many bytes")
)

// Listing is what List has found.
type Listing struct {
	// Files is sorted by path. It has the excluded files and folders too, but not what is in excluded folders.
	Files []File
	// Refusals is sorted by path. If it is not empty, Pack fails.
	Refusals []Refusal
	// Warnings are remarks for the user about files that are packed.
	Warnings []string
	// Packed is the number of files, and of empty folders, that are packed. Bytes is their total size.
	Packed int
	Bytes  int64

	dir string
}

// Err returns a *RefusedError if there are refusals.
func (l *Listing) Err() error {
	if len(l.Refusals) == 0 {
		return nil
	}
	return &RefusedError{Refusals: l.Refusals}
}

// Has reports whether a file is packed. The path is relative to the folder, with slashes.
func (l *Listing) Has(path string) bool {
	i, found := slices.BinarySearchFunc(l.Files, path, func(f File, path string) int { return strings.Compare(f.Path, path) })
	return found && l.Files[i].Excluded == ""
}
