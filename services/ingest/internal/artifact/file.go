package artifact

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// File is an artifact among all files of its run.
type File struct {
	Artifact

	// Clashes means that an older artifact needs the path that the name of this one would have.
	Clashes bool
	// Signed is the request that downloads the file. It has no URL if the platform does not have the bytes,
	// or if the artifact is a removed checkpoint.
	Signed blob.Signed `db:"-"`
}

const (
	maxTidy    = 512 // characters of a name; the index of names has no more
	maxSegment = 255 // bytes, as most file systems allow
)

// Place returns the path of the file in a folder with all files of the run. No two files of a run have the same path, also if
// case is ignored, and none is in the place of another one's folder. The path is that of the client, in a folder for the
// kind and the step. If the client's path could not be created on every computer, or is taken, the file is in a folder with
// the name of its id. Among these are letters outside ASCII in upper case or in several characters, so that no two paths differ
// in those only.
func (f *File) Place() string {
	folder := f.Kind
	if f.Step != nil {
		folder += "-" + strconv.FormatInt(*f.Step, 10)
	}
	if !f.Clashes && tidy(f.Given) {
		return folder + "/" + f.Given
	}
	return folder + "/" + f.ID + "/" + safe(f.Name())
}

// tidy reports whether a path from a client names the same file on every computer, below whatever folder it is put. A path
// whose first segment is an id is not tidy, because such a folder may belong to another file.
func tidy(p string) bool {
	if p == "" || p != path.Clean(p) || path.IsAbs(p) || strings.ContainsFunc(p, unsafe) || utf8.RuneCountInString(p) > maxTidy {
		return false
	}
	if strings.ContainsFunc(p, alike) || !norm.NFC.IsNormalString(p) {
		return false // the query that finds clashes compares other letters than ASCII as they are
	}
	first, _, _ := strings.Cut(p, "/")
	if first == "." || first == ".." || id.Check(id.Artifact, strings.ToLower(first)) == nil {
		return false
	}
	for segment := range strings.SplitSeq(p, "/") {
		if len(segment) > maxSegment || segment != strings.TrimRight(segment, trailing) || device(segment) {
			return false
		}
	}
	return true
}

// alike reports whether a character outside ASCII is another case of the one by which computers that ignore case know it.
func alike(c rune) bool { return c >= utf8.RuneSelf && unicode.ToLower(unicode.ToUpper(c)) != c }

// trailing are the characters that Windows removes at the end of a name.
const trailing = ". "

// unsafe reports whether a character means something else than itself in the paths of some computers, or must not be in them.
func unsafe(c rune) bool { return strings.ContainsRune(`\:*?"<>|`, c) || unicode.IsControl(c) }

// device reports whether Windows takes a name for that of a device, also with an extension, as in nul.txt.
func device(name string) bool {
	base, _, _ := strings.Cut(strings.ToUpper(name), ".")
	base = strings.TrimRight(base, trailing)
	for _, port := range []string{"COM", "LPT"} {
		if number, is := strings.CutPrefix(base, port); is {
			return utf8.RuneCountInString(number) == 1 && strings.ContainsAny(number, "0123456789¹²³")
		}
	}
	return slices.Contains([]string{"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"}, base)
}

// safe returns a name without the characters that paths must not have, and the end of a long one, which has the extension.
func safe(name string) string {
	name = strings.Map(func(c rune) rune {
		if unsafe(c) || c == '/' {
			return '_'
		}
		return c
	}, name)
	name = strings.TrimRight(name, trailing)
	if excess := len(name) - maxSegment; excess > 0 {
		name = strings.ToValidUTF8(name[excess:], "")
	}
	switch {
	case name == "":
		return "file"
	case device(name):
		return "_" + name // no name of a device is long
	}
	return name
}

// Files returns a page of all files of a run whose ids are greater than after, each with a signed download, and whether
// another page follows. It refuses a run with withheld artifacts, before it signs anything, and records that in the audit
// log once.
func (d *Downloads) Files(ctx context.Context, runID, after string, p request.Page) ([]*File, bool, error) {
	store := &Store{Pool: d.Pool}
	sealed, err := store.Sealed(ctx, runID)
	if err != nil {
		return nil, false, err
	}
	if sealed {
		if err := d.record(ctx, "run", runID, map[string]any{"what": "download"}); err != nil {
			return nil, false, err
		}
		return nil, false, fault.New(fault.Forbidden, codeProtected,
			"run %s is protected: its artifacts can be registered as models and deployed, but not downloaded", runID)
	}
	all, more, err := store.Files(ctx, runID, after, p)
	if err != nil {
		return nil, false, err
	}
	for _, f := range all {
		if f.URI() == "" || f.RemovedAt != nil {
			continue
		}
		if f.Signed, err = d.Sign(ctx, &f.Artifact); err != nil {
			return nil, false, err
		}
	}
	return all, more, nil
}
