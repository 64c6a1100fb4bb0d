package main

import (
	"fmt"
	"regexp"
	"strings"
)

// statement is an SQL statement in the source: the pieces of its text that are known. The text between two pieces is
// known only at run time.
type statement struct {
	path   string
	line   int
	pieces []string
	// whole is set if the text is an argument of a call that runs it. The first and the last piece are then the
	// beginning and the end of the statement.
	whole bool
}

// keyword matches the beginning of a statement. Whitespace must follow, so that a bare word is not a statement.
var keyword = regexp.MustCompile(`^\s*(?:SELECT|INSERT|UPDATE|DELETE|MERGE|WITH|LOCK|TRUNCATE|COPY|SET|LISTEN|UNLISTEN|NOTIFY|` +
	`CREATE|ALTER|DROP|GRANT|REVOKE|REINDEX|VACUUM|ANALYZE)\s`)

// parameter matches a parameter such as $1. A text with a parameter is part of a statement.
var parameter = regexp.MustCompile(`\$[1-9]\d*(?:\D|$)`)

// begin returns the statement in the pieces of a string expression. The statement starts at the first piece that begins
// with a keyword or contains a parameter; begin drops the pieces before it. Without such a piece, begin returns false.
func begin(pieces []string, whole bool) (statement, bool) {
	for i, piece := range pieces {
		if keyword.MatchString(piece) || parameter.MatchString(piece) {
			return statement{pieces: pieces[i:], whole: whole && i == 0}, true
		}
	}
	return statement{}, false
}

// matches reports whether text, a statement that ran, contains the pieces of s in order. If s is whole, text must also
// begin with the first piece and end with the last one.
func (s statement) matches(text string) bool {
	for i, piece := range s.pieces {
		at := strings.Index(text, piece)
		if s.whole && i == len(s.pieces)-1 {
			at = len(text) - len(piece)
		}
		if at < 0 || !strings.HasPrefix(text[at:], piece) || (s.whole && i == 0 && at > 0) {
			return false
		}
		text = text[at+len(piece):]
	}
	return true
}

// text returns the statement on one line, with ... for each unknown part.
func (s statement) text() string {
	return strings.Join(strings.Fields(strings.Join(s.pieces, "...")), " ")
}

func (s statement) String() string {
	text := s.text()
	if len(text) > 120 {
		text = text[:120] + "..."
	}
	return fmt.Sprintf("%s:%d: no test runs %s", s.path, s.line, text)
}
