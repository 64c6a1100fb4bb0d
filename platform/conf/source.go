package conf

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/sethvargo/go-envconfig"
)

const (
	fileSuffix  = "_FILE"
	maxFileSize = 64 << 10
	ours        = "SERVICE_"
	jobs        = "SERVICE_JOB_" // prefix of variables for training code
)

// source returns a lookuper for the setting with the given name, and the source of its value. For texts an empty value
// is valid. For numbers, durations and booleans it counts as not set, because env files often contain such entries.
func (l *loader) source(name string, isSecret, isText bool) (envconfig.Lookuper, string, error) {
	value, source, direct := l.from.find(name)
	if value == "" && !isText {
		return Lookuper{}, SourceDefault, nil
	}
	path, _, byFile := "", "", false
	if isSecret {
		path, _, byFile = l.from.find(name + fileSuffix)
	}
	switch {
	case direct && byFile:
		return nil, "", Errorf(name, "is set by both %s and %s%s; unset one of them", name, name, fileSuffix)
	case byFile:
		text, err := readFile(path)
		if err != nil {
			return nil, "", Errorf(name+fileSuffix, "%v", err)
		}
		return envconfig.MapLookuper(map[string]string{name: text}), SourceFile, nil
	default:
		return l.from, source, nil
	}
}

// readFile reads a secret and removes one trailing line break, which editors add.
func readFile(path string) (string, error) {
	f, err := os.Open(path) // #nosec G304 -- the operator's own setting
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	raw, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return "", err
	}
	if len(raw) > maxFileSize {
		return "", fmt.Errorf("%s is larger than %d bytes", path, maxFileSize)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
	if text == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return text, nil
}

// unknown returns a warning for every SERVICE_ variable that is not a known setting. It skips the variables of
// training code and those with an ignored prefix.
func (l *loader) unknown() []string {
	var warnings []string
	for _, name := range l.from.names() {
		if !strings.HasPrefix(name, ours) || strings.HasPrefix(name, jobs) || l.reads(name) {
			continue
		}
		if slices.ContainsFunc(l.ignored, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		warning := name + " is set, but nothing reads it"
		if near := l.nearest(name); near != "" {
			warning += "; did you mean " + near + "?"
		}
		warnings = append(warnings, warning)
	}
	return warnings
}

func (l *loader) reads(name string) bool {
	if _, ok := l.known[name]; ok {
		return true
	}
	base, ok := strings.CutSuffix(name, fileSuffix)
	at, known := l.known[base]
	return ok && known && l.out.Settings[at].Secret
}

// nearest returns the known name with the smallest edit distance, or "" if every distance is too large.
func (l *loader) nearest(name string) string {
	best, least := "", max(3, len(name)/4)+1
	for _, s := range l.out.Settings {
		candidates := []string{s.Name}
		if s.Secret {
			candidates = append(candidates, s.Name+fileSuffix)
		}
		for _, c := range candidates {
			if d := distance(name, c); d < least {
				best, least = c, d
			}
		}
	}
	return best
}

// distance returns the edit distance: the number of single-character insertions, deletions and
// replacements.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
