// Package pylock parses locks of Python packages that users submit: requirements with hashes, and uv.lock. A lock is
// hostile input. Parse accepts only packages of an index, each with an exact version and SHA-256 hashes, and refuses
// everything that could make an installer read a file, contact a host, run code or take options. It runs nothing and
// opens nothing.
//
// Installers never see the bytes of a user. They get Text, which this package writes from names, versions and hashes
// that have passed the parser. Refusals are values of type *Error, which name the line and the remedy.
package pylock

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The bounds of a lock.
const (
	// MaxBytes is the maximum size of a lock. A lock of uv lists every wheel of every platform with its URL.
	MaxBytes = 4 << 20
	// MaxPackages is the maximum number of packages in a lock.
	MaxPackages = 5000
	// maxHashes is the maximum number of hashes of one package.
	maxHashes = 2000
	// maxName is the maximum length of a name or a version in bytes.
	maxName = 128
	// maxLine is the maximum length of a line in bytes.
	maxLine = 64 << 10
)

// UVLock is the end of the name of locks that uv writes. Locks with other names are requirements.
const UVLock = "uv.lock"

// Error is the refusal of a lock. It is the user's to correct.
type Error struct {
	File string
	Line int // from 1; 0 if the whole file is meant
	// Problem states what is wrong, and Remedy what to do.
	Problem, Remedy string
}

// Error returns the file, the line, the problem and the remedy.
func (e *Error) Error() string {
	place := path.Base(e.File)
	if e.Line > 0 {
		place += ", line " + strconv.Itoa(e.Line)
	}
	return place + ": " + e.Problem + "; " + e.Remedy
}

// Lock is a parsed lock.
type Lock struct {
	file string
	// python are the versions of Python that the lock is for, as text and parsed; empty if it does not state them.
	python     string
	pythons    []specifier
	entries    []entry
	resolution *graph // of a lock of uv; nil for requirements
}

// entry is one package of a lock.
type entry struct {
	line   int
	pin    Pin
	marker *marker
}

// Pin is a package with an exact version and the hashes of its files.
type Pin struct {
	// Name is the normalized name.
	Name, Version string
	// Hashes are SHA-256 hashes in lower-case hex, sorted. One of them must be that of the installed wheel.
	Hashes []string
}

// Parse parses the lock in the given file. If the file's name ends with UVLock, it must be a lock of uv; otherwise it must
// contain requirements. The error is an *Error.
func Parse(file string, data []byte) (*Lock, error) {
	if err := checkText(file, data); err != nil {
		return nil, err
	}
	if strings.HasSuffix(file, UVLock) {
		return parseUV(file, string(data))
	}
	return parseRequirements(file, string(data))
}

// checkText refuses a file that is too large or that is not plain text.
func checkText(file string, data []byte) error {
	if len(data) > MaxBytes {
		return &Error{File: file, Problem: fmt.Sprintf("the lock is larger than %d bytes", MaxBytes), Remedy: "lock fewer packages"}
	}
	line := 0
	for text := range strings.Lines(string(data)) {
		line++
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
		switch {
		case len(text) > maxLine:
			return &Error{file, line, fmt.Sprintf("the line is longer than %d bytes", maxLine), "write the lock with uv"}
		case !utf8.ValidString(text):
			return &Error{file, line, "the line is not valid UTF-8", "write the lock with uv"}
		case strings.ContainsFunc(text, control):
			return &Error{file, line, "the line contains a control character", "remove it"}
		}
	}
	return nil
}

// control reports whether a character is invisible or moves the text around it, except for tabs.
func control(r rune) bool {
	return r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 || r == 0xfeff || r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e ||
		r >= 0x2060 && r <= 0x206f
}

// Pins returns the packages to install for an interpreter with the given properties, sorted by name. The error is an
// *Error.
func (l *Lock) Pins(env Environment) ([]Pin, error) {
	if have, ok := parseVersion(pattern(), env["python_full_version"]); len(l.pythons) > 0 && ok {
		for _, s := range l.pythons {
			if !have.matches(s.op, s.with, s.wild) {
				return nil, &Error{
					File: l.file, Problem: fmt.Sprintf("the lock is for Python %s, and the node has %s", l.python, env["python_full_version"]),
					Remedy: "set requires-python so that it includes this version, and lock again",
				}
			}
		}
	}
	chosen := l.entries
	if l.resolution != nil {
		var err error
		if chosen, err = l.resolution.choose(env); err != nil {
			return nil, err
		}
	}
	return l.merge(chosen, env)
}

// merge returns the pins of the entries that apply. Entries for the same package must agree.
func (l *Lock) merge(chosen []entry, env Environment) ([]Pin, error) {
	lines, found := map[string]int{}, map[string]*Pin{}
	for _, e := range chosen {
		if !e.marker.holds(env) {
			continue
		}
		before, twice := found[e.pin.Name]
		if twice && before.Version != e.pin.Version {
			return nil, &Error{
				l.file, e.line, fmt.Sprintf("%s is locked to %s and, in line %d, to %s, and both apply to the node's Python",
					e.pin.Name, e.pin.Version, lines[e.pin.Name], before.Version), "keep one of them",
			}
		}
		if !twice {
			before = &Pin{Name: e.pin.Name, Version: e.pin.Version}
			lines[e.pin.Name], found[e.pin.Name] = e.line, before
		}
		before.Hashes = append(before.Hashes, e.pin.Hashes...)
	}
	pins := make([]Pin, 0, len(found))
	for _, pin := range found {
		slices.Sort(pin.Hashes)
		pin.Hashes = slices.Compact(pin.Hashes)
		pins = append(pins, *pin)
	}
	slices.SortFunc(pins, func(a, b Pin) int { return strings.Compare(a.Name, b.Name) })
	return pins, nil
}

// Text returns the pins as requirements for pip and uv. Equal pins give equal texts.
func Text(pins []Pin) string {
	var b strings.Builder
	for _, p := range pins {
		b.WriteString(p.Name + "==" + p.Version)
		for _, hash := range p.Hashes {
			b.WriteString(" \\\n    --hash=sha256:" + hash)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// forms are the patterns of the parts of a lock.
type forms struct{ name, version, hash *regexp.Regexp }

func newForms() forms {
	return forms{
		name:    regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$`),
		version: pattern(),
		hash:    regexp.MustCompile(`^sha256:[0-9a-fA-F]{64}$`),
	}
}

// isName reports whether the text is the name of a package or an extra.
func (f forms) isName(text string) bool { return len(text) <= maxName && f.name.MatchString(text) }

func (f forms) isVersion(text string) bool {
	_, ok := parseVersion(f.version, text)
	return ok
}

// normal returns the normalized name of a package, which is equal for all its spellings.
func normal(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-_.", r) }), "-")
}

// quote quotes text of a lock for a message. It shortens long text and shows only ASCII.
func quote(text string) string {
	const most = 80
	if len(text) > most {
		text = text[:most] + "..."
	}
	return strconv.QuoteToASCII(text)
}
