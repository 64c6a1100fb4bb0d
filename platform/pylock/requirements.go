package pylock

import (
	"fmt"
	"slices"
	"strings"
)

// requirements is the state of the parser of requirements.
type requirements struct {
	file    string
	forms   forms
	entries []entry
	// open is the requirement that the next lines continue, begun in the line at.
	open strings.Builder
	at   int
	// continues is true if the last line ended with a backslash.
	continues bool
}

// howToLock is the remedy for most refusals of requirements.
const howToLock = "write the lock with `uv pip compile --generate-hashes` or `uv export`"

// parseRequirements parses lines of the form `name[extras]==version ; marker --hash=sha256:...`, with comments and
// continued lines.
func parseRequirements(file, text string) (*Lock, error) {
	p := &requirements{file: file, forms: newForms()}
	line := 0
	for raw := range strings.Lines(text) {
		line++
		if err := p.line(line, strings.TrimRight(raw, "\r\n")); err != nil {
			return nil, err
		}
	}
	if p.continues {
		return nil, p.refuse(line, "the last line ends with a backslash", "remove the backslash")
	}
	return &Lock{file: file, entries: p.entries}, nil
}

func (p *requirements) refuse(line int, problem, remedy string) *Error {
	return &Error{File: p.file, Line: line, Problem: problem, Remedy: remedy}
}

// line parses one line of the file.
func (p *requirements) line(n int, text string) error {
	text, comment := uncommented(text)
	text = strings.Trim(text, " \t")
	switch {
	case text == "" && p.continues:
		return p.refuse(n, "the line continues the one before, but has no text", "remove the backslash of the line before")
	case text == "":
		return nil
	case comment && strings.HasSuffix(text, `\`):
		return p.refuse(n, "a comment follows a backslash", "remove the comment or the backslash")
	}
	if !p.continues {
		p.at = n
		p.open.Reset()
	}
	if err := p.checkPart(n, text); err != nil {
		return err
	}
	text, p.continues = strings.CutSuffix(text, `\`)
	p.open.WriteString(" " + text)
	if p.continues {
		return nil
	}
	return p.requirement(p.at, strings.Trim(p.open.String(), " \t"))
}

// uncommented returns the text before a comment, and whether there is a comment.
func uncommented(text string) (before string, comment bool) {
	for i := range len(text) {
		if text[i] == '#' && (i == 0 || text[i-1] == ' ' || text[i-1] == '\t') {
			return text[:i], true
		}
	}
	return text, false
}

// checkPart refuses what no line of a lock may contain, so that the message names the line itself and not only the
// line in which its requirement begins.
func (p *requirements) checkPart(n int, text string) error {
	lower := strings.ToLower(text)
	switch {
	case strings.Contains(text, "${"):
		return p.refuse(n, "the line refers to an environment variable", "write its value")
	case strings.Contains(lower, "://"):
		return p.refuse(n, "the line contains a URL", "lock a package of an index by name and version")
	}
	for word := range strings.FieldsSeq(text) {
		if strings.HasPrefix(word, "-") && !strings.HasPrefix(word, hashOption) {
			option, _, _ := strings.Cut(word, "=")
			return p.refuse(n, "the option "+quote(option)+" is not allowed",
				"remove the line; the node's settings determine the index and the other options of the installer")
		}
	}
	return nil
}

const hashOption = "--hash="

// requirement parses a requirement whose first line is n.
func (p *requirements) requirement(n int, text string) error {
	if len(p.entries) == MaxPackages {
		return p.refuse(n, fmt.Sprintf("the lock has more than %d packages", MaxPackages), "lock fewer packages")
	}
	spec, hashes, err := p.hashes(n, text)
	if err != nil {
		return err
	}
	spec, condition, conditional := strings.Cut(spec, ";")
	spec = strings.TrimSpace(spec)
	name, version, pinned := strings.Cut(spec, "==")
	name, version = strings.TrimSpace(name), strings.TrimSpace(version)
	if strings.Contains(spec, "@") {
		return p.refuse(n, quote(spec)+" names a file or an address", "lock a package of an index by name and version")
	}
	name, ok := p.withoutExtras(name)
	switch {
	case !pinned || !ok || strings.HasPrefix(version, "="):
		return p.refuse(n, quote(spec)+" is not of the form name==version", howToLock)
	case !p.forms.isVersion(version):
		return p.refuse(n, quote(version)+" is not an exact version", howToLock)
	case len(hashes) == 0:
		return p.refuse(n, quote(name)+" has no hash", howToLock)
	}
	e := entry{line: n, pin: Pin{Name: normal(name), Version: strings.ToLower(version), Hashes: hashes}}
	if conditional {
		if e.marker, err = parseMarker(p.forms.version, condition, false); err != nil {
			return p.refuse(n, err.Error(), howToLock)
		}
	}
	p.entries = append(p.entries, e)
	return nil
}

// withoutExtras returns the name without its extras. They do not matter, because a lock lists their packages as well.
func (p *requirements) withoutExtras(name string) (string, bool) {
	name, list, found := strings.Cut(name, "[")
	name = strings.TrimRight(name, " \t")
	if !found {
		return name, p.forms.isName(name)
	}
	list, closed := strings.CutSuffix(list, "]")
	ok := closed && p.forms.isName(name)
	for part := range strings.SplitSeq(list, ",") {
		ok = ok && p.forms.isName(strings.TrimSpace(part))
	}
	return name, ok
}

// hashes separates the hashes at the end of a requirement from the text before them.
func (p *requirements) hashes(n int, text string) (before string, hashes []string, err error) {
	before, rest, found := strings.Cut(text, " "+hashOption)
	if !found {
		if strings.Contains(text, hashOption) {
			return "", nil, p.refuse(n, "a hash does not follow a space", howToLock)
		}
		return text, nil, nil
	}
	for word := range strings.FieldsSeq(hashOption + rest) {
		hash, ok := strings.CutPrefix(word, hashOption)
		if !ok || !p.forms.hash.MatchString(hash) {
			return "", nil, p.refuse(n, quote(word)+" is not a SHA-256 hash", "give each hash as --hash=sha256: and 64 hexadecimal digits")
		}
		hashes = append(hashes, strings.ToLower(strings.TrimPrefix(hash, "sha256:")))
	}
	if len(hashes) > maxHashes {
		return "", nil, p.refuse(n, fmt.Sprintf("the package has more than %d hashes", maxHashes), howToLock)
	}
	slices.Sort(hashes)
	return before, slices.Compact(hashes), nil
}
