package pylock

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// uvFile has the parts of a lock of uv that determine what is installed.
type uvFile struct {
	Version  int         `toml:"version"`
	Python   string      `toml:"requires-python"`
	Packages []uvPackage `toml:"package"`
}

type uvPackage struct {
	Name         string                    `toml:"name"`
	Version      string                    `toml:"version"`
	Source       map[string]any            `toml:"source"`
	Dependencies []uvDependency            `toml:"dependencies"`
	Extras       map[string][]uvDependency `toml:"optional-dependencies"`
	Groups       map[string][]uvDependency `toml:"dev-dependencies"`
	Sdist        *uvArtifact               `toml:"sdist"`
	Wheels       []uvArtifact              `toml:"wheels"`
}

// uvArtifact is a file of a package.
type uvArtifact struct {
	URL  string `toml:"url"`
	Hash string `toml:"hash"`
}

type uvDependency struct {
	Name    string         `toml:"name"`
	Version string         `toml:"version"`
	Source  map[string]any `toml:"source"`
	Extras  []string       `toml:"extra"`
	Marker  string         `toml:"marker"`
}

// uvParser converts a decoded lock of uv to a graph. It knows the lines of the packages.
type uvParser struct {
	file  string
	forms forms
	lines []string
	heads []int // the lines of the headers of the packages, from 1
}

// lockAgain is the remedy for a lock that uv would not have written.
const lockAgain = "write the lock with `uv lock`"

// parseUV parses a lock of uv.
func parseUV(file, text string) (*Lock, error) {
	p := &uvParser{file: file, forms: newForms(), lines: strings.Split(text, "\n")}
	if err := p.scan(); err != nil {
		return nil, err
	}
	for i, text := range p.lines {
		if strings.TrimSpace(text) == packageHeader {
			p.heads = append(p.heads, i+1)
		}
	}
	if len(p.heads) > MaxPackages {
		return nil, p.refuse(p.heads[MaxPackages], fmt.Sprintf("the lock has more than %d packages", MaxPackages), "lock fewer packages")
	}
	var lock uvFile
	if err := toml.Unmarshal([]byte(text), &lock); err != nil {
		line := 0
		if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, _ = bad.Position()
		}
		return nil, &Error{file, line, "the lock is not valid: " + quote(err.Error()), lockAgain}
	}
	switch {
	case lock.Version != 1:
		return nil, p.refuse(p.find("version", 0), fmt.Sprintf("the lock has version %d, and only version 1 is known", lock.Version), lockAgain)
	case len(p.heads) != len(lock.Packages):
		return nil, p.refuse(0, "a package does not begin with a line [[package]]", lockAgain)
	}
	l := &Lock{file: file, python: quote(lock.Python)}
	if lock.Python != "" {
		var ok bool
		if l.pythons, ok = parseSpecifiers(lock.Python); !ok {
			return nil, p.refuse(p.find("requires-python", 0), quote(lock.Python)+" does not state versions of Python", lockAgain)
		}
	}
	var err error
	l.resolution, err = p.graph(lock.Packages)
	return l, err
}

func (p *uvParser) refuse(line int, problem, remedy string) *Error {
	return &Error{File: p.file, Line: line, Problem: problem, Remedy: remedy}
}

// These bounds are far above what uv writes. A decoder may visit values recursively, and compares each key with the others
// of its table.
const (
	maxNesting = 16
	maxDots    = 64  // in a line
	maxKeys    = 256 // in a table
	maxTables  = 64  // in a package, and besides the packages
)

// shape counts what the bounds limit.
type shape struct {
	// keys are the numbers of keys in the open tables, from the outermost to the innermost one. An array counts as a table.
	keys [maxNesting + 1]int
	// depth is the index of the innermost table. dots are those of the line.
	depth, dots int
	// inside are the tables of the current package, and beside those that belong to no package.
	inside, beside int
}

// exceeded reports whether a bound is exceeded.
func (s *shape) exceeded() bool {
	return s.depth > maxNesting || s.depth < 0 || s.dots > maxDots || s.keys[s.depth] > maxKeys || s.inside > maxTables || s.beside > maxTables
}

// header counts a line that begins a table.
func (s *shape) header(text string) {
	s.keys[0] = 0
	switch {
	case text == packageHeader:
		s.inside = 0
	case strings.HasPrefix(text, "[package."):
		s.inside++
	default:
		s.beside++
	}
}

// see counts a character outside of strings.
func (s *shape) see(c byte) {
	switch c {
	case '[', '{':
		if s.depth++; s.depth <= maxNesting {
			s.keys[s.depth] = 0
		}
	case ']', '}':
		s.depth--
	case '=':
		s.keys[s.depth]++
	case '.':
		s.dots++
	}
}

const packageHeader = "[[package]]"

// scan refuses text that exceeds the bounds, and strings of more than one line, which uv does not write.
func (p *uvParser) scan() error {
	s := &shape{}
	for i, text := range p.lines {
		s.dots = 0
		if line := strings.TrimSpace(text); s.depth == 0 && strings.HasPrefix(line, "[") {
			s.header(line)
		}
		for n := 0; n < len(text); n++ {
			switch c := text[n]; c {
			case '#':
				n = len(text)
			case '"', '\'':
				end := stringEnd(text, n)
				if end < 0 {
					return p.refuse(i+1, "a string does not end in its line", lockAgain)
				}
				n = end
			default:
				s.see(c)
			}
			if s.exceeded() {
				return p.refuse(i+1, "the lock nests its values too deeply or has too many keys in a table", lockAgain)
			}
		}
	}
	return nil
}

// stringEnd returns the index of the last quote of the string that begins at n, or -1 if the string does not end in the
// line or may have more than one line.
func stringEnd(text string, n int) int {
	if strings.HasPrefix(text[n:], `"""`) || strings.HasPrefix(text[n:], "'''") {
		return -1
	}
	for i := n + 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && text[n] == '"':
			i++
		case text[i] == text[n]:
			return i
		}
	}
	return -1
}

// find returns the first line with the text at or after the given line and before the next package. Without such a line,
// it returns the given line.
func (p *uvParser) find(text string, from int) int {
	for i := max(from, 1); i <= len(p.lines); i++ {
		if i > from && strings.TrimSpace(p.lines[i-1]) == packageHeader {
			break
		}
		if strings.Contains(p.lines[i-1], text) {
			return i
		}
	}
	return from
}

// graph checks all packages, also those that are never installed.
func (p *uvParser) graph(packages []uvPackage) (*graph, error) {
	g := &graph{file: p.file, root: -1, named: map[string][]int{}, find: p.find}
	for i, pkg := range packages {
		line := p.heads[i]
		if !p.forms.isName(pkg.Name) {
			return nil, p.refuse(line, quote(pkg.Name)+" is not the name of a package", lockAgain)
		}
		n := node{line: line, source: sourceOf(pkg.Source), own: ownSource(pkg.Source)}
		n.pin.Name = normal(pkg.Name)
		if n.own {
			if g.root >= 0 {
				return nil, p.refuse(line, "the lock has more than one project", "submit the folder of one project that is not a workspace")
			}
			g.root = i
		} else if err := p.check(line, pkg, &n); err != nil {
			return nil, err
		}
		if err := p.edges(line, pkg, &n); err != nil {
			return nil, err
		}
		g.named[n.pin.Name] = append(g.named[n.pin.Name], i)
		g.nodes = append(g.nodes, n)
	}
	if g.root < 0 {
		return nil, p.refuse(0, "the lock has no project", "write the lock with `uv lock` in a folder whose pyproject.toml has a table project")
	}
	return g, nil
}

// ownSource reports whether a source is the folder of the lock itself, which is the user's own code.
func ownSource(source map[string]any) bool {
	return len(source) == 1 && (source["virtual"] == "." || source["editable"] == ".")
}

// sourceOf returns a text that is equal for equal sources.
func sourceOf(source map[string]any) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(source)) {
		fmt.Fprintf(&b, "%s=%v\n", key, source[key])
	}
	return b.String()
}

// check refuses a package that does not come from an index, and reads its version and its hashes.
func (p *uvParser) check(line int, pkg uvPackage, n *node) error {
	at := p.find("source", line)
	registry, ok := pkg.Source["registry"].(string)
	if !ok || len(pkg.Source) != 1 {
		kinds := strings.Join(slices.Sorted(maps.Keys(pkg.Source)), ", ")
		return p.refuse(at, fmt.Sprintf("the source of %s is not an index (%s)", quote(pkg.Name), quote(kinds)), "depend on a version of the package that an index has")
	}
	if !isWeb(registry) {
		return p.refuse(at, fmt.Sprintf("the index of %s is not a web address (%s)", quote(pkg.Name), quote(registry)), "lock the package from an index")
	}
	if !p.forms.isVersion(pkg.Version) {
		return p.refuse(p.find("version", line), fmt.Sprintf("%s is not an exact version of %s", quote(pkg.Version), quote(pkg.Name)), lockAgain)
	}
	n.pin.Version = strings.ToLower(pkg.Version)
	if pkg.Sdist != nil && !isWeb(pkg.Sdist.URL) {
		return p.refuse(p.find("sdist", line), "the source distribution of "+quote(pkg.Name)+" is not at a web address", lockAgain)
	}
	if len(pkg.Wheels) > maxHashes {
		return p.refuse(line, fmt.Sprintf("%s has more than %d wheels", quote(pkg.Name), maxHashes), lockAgain)
	}
	for _, wheel := range pkg.Wheels {
		switch {
		case !isWeb(wheel.URL):
			return p.refuse(p.find("wheels", line), fmt.Sprintf("a wheel of %s is not at a web address (%s)", quote(pkg.Name), quote(wheel.URL)), "lock the package from an index")
		case !p.forms.hash.MatchString(wheel.Hash):
			return p.refuse(p.find(wheel.URL, line), "a wheel of "+quote(pkg.Name)+" has no SHA-256 hash", "lock the package from an index that states hashes")
		}
		n.pin.Hashes = append(n.pin.Hashes, strings.ToLower(strings.TrimPrefix(wheel.Hash, "sha256:")))
	}
	return nil
}

// isWeb reports whether the address is one of the web. The node does not use it.
func isWeb(address string) bool {
	return strings.HasPrefix(address, "https://") || strings.HasPrefix(address, "http://")
}

// edges reads what a package depends on. The project's dependency group dev is installed as well, as uv does.
func (p *uvParser) edges(line int, pkg uvPackage, n *node) (err error) {
	if n.edges, err = p.list(line, pkg.Dependencies); err != nil {
		return err
	}
	n.extras = map[string][]edge{}
	for name, list := range pkg.Extras {
		if n.extras[normal(name)], err = p.list(line, list); err != nil {
			return err
		}
	}
	for name, list := range pkg.Groups {
		found, err := p.list(line, list)
		if err != nil {
			return err
		}
		if normal(name) == "dev" && n.own {
			n.edges = append(n.edges, found...)
		}
	}
	return nil
}

func (p *uvParser) list(line int, list []uvDependency) ([]edge, error) {
	edges := make([]edge, 0, len(list))
	for _, d := range list {
		if !p.forms.isName(d.Name) || slices.ContainsFunc(d.Extras, func(extra string) bool { return !p.forms.isName(extra) }) {
			return nil, p.refuse(p.find(`"`+d.Name+`"`, p.find("dependencies", line)), quote(d.Name)+" is not a dependency on a package", lockAgain)
		}
		e := edge{line: line, name: normal(d.Name), version: strings.ToLower(d.Version), source: sourceOf(d.Source)}
		for _, extra := range d.Extras {
			e.extras = append(e.extras, normal(extra))
		}
		if d.Marker != "" {
			var err error
			if e.marker, err = parseMarker(p.forms.version, d.Marker, true); err != nil {
				return nil, p.refuse(p.find(d.Marker, line), err.Error(), lockAgain)
			}
		}
		edges = append(edges, e)
	}
	return edges, nil
}
