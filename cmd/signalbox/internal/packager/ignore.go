package packager

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// rule is one line of a file with patterns in the syntax of gitignore.
type rule struct {
	// source names the rule for people: file, line and pattern.
	source string
	// negated means that the rule includes again what an earlier rule has excluded.
	negated bool
	// folders means that the rule is for folders only.
	folders  bool
	segments []segment
}

// segment is the part of a pattern between two slashes.
type segment struct {
	// deep means any number of folders, also none: `**`.
	deep   bool
	tokens []token
}

// token matches one character of a name, or any number of them if star is set.
type token struct {
	star  bool
	slash bool // only until the tokens are split into segments
	takes func(rune) bool
}

// parseRules parses a file with patterns. The file is named by file in the sources of the rules. Lines that are not valid
// patterns match nothing in git either, so they are left out.
func parseRules(file string, text []byte) []rule {
	var rules []rule
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	n := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		n++
		line = trimSpaces(strings.TrimSuffix(line, "\r"))
		if r, ok := parseRule(line); ok {
			r.source = file + ":" + strconv.Itoa(n) + ": " + line
			rules = append(rules, r)
		}
	}
	return rules
}

// trimSpaces removes the spaces at the end of a line, except one that follows a backslash.
func trimSpaces(line string) string {
	end := len(line)
	for end > 0 && line[end-1] == ' ' {
		end--
	}
	slashes := 0
	for slashes < end && line[end-1-slashes] == '\\' {
		slashes++
	}
	if slashes%2 == 1 && end < len(line) {
		end++
	}
	return line[:end]
}

func parseRule(line string) (rule, bool) {
	if line == "" || strings.HasPrefix(line, "#") {
		return rule{}, false
	}
	var r rule
	line, r.negated = strings.CutPrefix(line, "!")
	tokens, ok := tokenize(line)
	if !ok {
		return rule{}, false
	}
	if last := len(tokens) - 1; last >= 0 && tokens[last].slash {
		tokens, r.folders = tokens[:last], true
	}
	// In git, a slash in a set, as in `[a/b]`, matches nothing, but anchors the pattern.
	anchored := strings.Contains(strings.TrimSuffix(line, "/"), "/")
	if len(tokens) > 0 && tokens[0].slash {
		tokens = tokens[1:]
	}
	if len(tokens) == 0 {
		return rule{}, false
	}
	r.segments = split(tokens, anchored)
	return r, true
}

// split splits the tokens of a pattern into segments. A pattern that is not anchored matches in every folder.
func split(tokens []token, anchored bool) []segment {
	if !anchored {
		return []segment{{deep: true}, {tokens: tokens}}
	}
	var segments []segment
	begin := 0
	for i := range len(tokens) + 1 {
		if i < len(tokens) && !tokens[i].slash {
			continue
		}
		part := tokens[begin:i]
		segments = append(segments, segment{deep: deep(part), tokens: part})
		begin = i + 1
	}
	if last := segments[len(segments)-1]; last.deep {
		// `a/**` is what is below a, but not a itself.
		segments = append(segments, segment{tokens: []token{{star: true}}})
	}
	return segments
}

// deep reports whether a segment consists of two or more stars.
func deep(part []token) bool {
	for _, t := range part {
		if !t.star {
			return false
		}
	}
	return len(part) > 1
}

// tokenize returns the tokens of a pattern. It returns false if the pattern is not valid.
func tokenize(pattern string) ([]token, bool) {
	var tokens []token
	for pattern != "" {
		r, size := utf8.DecodeRuneInString(pattern)
		rest := pattern[size:]
		switch r {
		case '*':
			tokens = append(tokens, token{star: true})
		case '?':
			tokens = append(tokens, token{takes: func(rune) bool { return true }})
		case '/':
			tokens = append(tokens, token{slash: true})
		case '[':
			takes, after, ok := parseClass(rest)
			if !ok {
				return nil, false
			}
			tokens, rest = append(tokens, token{takes: takes}), after
		case '\\':
			if rest == "" {
				return nil, false
			}
			r, size = utf8.DecodeRuneInString(rest)
			tokens, rest = append(tokens, literal(r)), rest[size:]
		default:
			tokens = append(tokens, literal(r))
		}
		pattern = rest
	}
	return tokens, true
}

func literal(want rune) token {
	if want == '/' {
		return token{slash: true}
	}
	return token{takes: func(r rune) bool { return r == want }}
}

// matches reports whether the rule is for a path, which is relative to the folder of the rule.
func (r rule) matches(path string, folder bool) bool {
	if r.folders && !folder {
		return false
	}
	names := strings.Split(path, "/")
	return wild(len(r.segments), len(names),
		func(i int) bool { return r.segments[i].deep },
		func(i, j int) bool { return r.segments[i].matches([]rune(names[j])) })
}

func (s segment) matches(name []rune) bool {
	return wild(len(s.tokens), len(name),
		func(i int) bool { return s.tokens[i].star },
		func(i, j int) bool { return s.tokens[i].takes(name[j]) })
}

// wild matches a pattern of m elements with n elements. An element of the pattern either is a star, which matches any
// number of elements, or takes exactly one. It needs at most m times n steps.
func wild(m, n int, star func(i int) bool, takes func(i, j int) bool) bool {
	i, j := 0, 0
	back, from := -1, 0 // the last star, and the first element that it does not match
	for j < n {
		switch {
		case i < m && star(i):
			back, from = i, j
			i++
		case i < m && takes(i, j):
			i++
			j++
		case back >= 0:
			from++
			i, j = back+1, from
		default:
			return false
		}
	}
	for i < m && star(i) {
		i++
	}
	return i == m
}
