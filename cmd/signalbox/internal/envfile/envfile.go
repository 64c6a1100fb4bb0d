// Package envfile owns the reading of files with environment variables. It promises that a value arrives as it is written:
// nothing in it is replaced, and an error contains nothing of a line but its number and a valid name, because the rest can be
// a secret.
package envfile

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Bounds of the environment of a job.
const (
	maxVariables = 64
	maxValue     = 32 << 10
)

var nameForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// Error is what is wrong with a line.
type Error struct {
	// Line is counted from 1. Of a value in quotes with several lines, it is the first.
	Line    int
	Problem string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Problem) }

// file is a file that is being read.
type file struct {
	rest string
	line int
}

// Parse returns the variables of a file. Each line is NAME=value, also with export before it, or a comment that begins
// with #. A value in single quotes is taken literally. In double quotes, \n, \r, \t, \", \\ and \$ stand for a line break, a
// carriage return, a tab and the character itself. A value in quotes can have several lines. If a name occurs more than
// once, the last value counts. The error is an *Error.
func Parse(text string) (map[string]string, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	f := &file{rest: strings.ReplaceAll(text, "\r\n", "\n"), line: 1}
	out := map[string]string{}
	for f.rest != "" {
		line := f.line
		name, value, err := f.variable()
		if err != nil {
			return nil, err
		}
		if name == "" {
			continue
		}
		if problem := wrong(name, value); problem != "" {
			return nil, &Error{line, problem}
		}
		if out[name] = value; len(out) > maxVariables {
			return nil, &Error{line, fmt.Sprintf("the file has more than %d variables; remove those that the job does not need", maxVariables)}
		}
	}
	return out, nil
}

// wrong returns why a job cannot have a variable, or "".
func wrong(name, value string) string {
	switch {
	case strings.ContainsRune(value, 0):
		return fmt.Sprintf("the value of %s contains NUL; encode it as text", name)
	case !utf8.ValidString(value):
		return fmt.Sprintf("the value of %s is not UTF-8; encode it as text", name)
	case len(value) > maxValue:
		return fmt.Sprintf("the value of %s is longer than %d bytes; put it into a file of the folder", name, maxValue)
	}
	return ""
}

// variable reads the next line, and those that belong to its value. The name is empty if the line has no variable.
func (f *file) variable() (name, value string, err error) {
	line, _, _ := strings.Cut(f.rest, "\n")
	text := strings.TrimLeft(line, " \t")
	if strings.TrimSpace(text) == "" || text[0] == '#' {
		f.skip(len(line))
		return "", "", nil
	}
	if after, ok := strings.CutPrefix(text, "export"); ok && strings.IndexAny(after, " \t") == 0 {
		text = strings.TrimLeft(after, " \t")
	}
	name, after, ok := strings.Cut(text, "=")
	switch {
	case !ok:
		return "", "", &Error{f.line, "the line has no =; write NAME=value"}
	case strings.TrimSpace(name) == "":
		return "", "", &Error{f.line, "the name before = is missing; write NAME=value"}
	case strings.TrimRight(name, " \t") != name:
		return "", "", &Error{f.line, "the name is followed by a space; write NAME=value without spaces around ="}
	case !nameForm.MatchString(name):
		// The text before = can be a part of a secret whose lines are not in quotes. No error may contain it.
		return "", "", &Error{f.line, "the name before = is not a valid environment variable name; use letters, digits and underscores, " +
			"and put a value with several lines into quotes"}
	}
	value = strings.TrimLeft(after, " \t")
	if strings.IndexAny(value, `"'`) != 0 {
		f.skip(len(line))
		return name, unquoted(after), nil
	}
	f.rest = f.rest[len(line)-len(value):]
	value, err = f.quoted(name)
	return name, value, err
}

// skip leaves out the rest of a line, which has n bytes.
func (f *file) skip(n int) {
	f.rest = strings.TrimPrefix(f.rest[n:], "\n")
	f.line++
}

// unquoted returns a value without the comment after it.
func unquoted(text string) string {
	for i := range len(text) {
		if i > 0 && text[i] == '#' && (text[i-1] == ' ' || text[i-1] == '\t') {
			text = text[:i]
			break
		}
	}
	return strings.TrimSpace(text)
}

// quoted reads a value in quotes and the rest of its last line.
func (f *file) quoted(name string) (string, error) {
	first, quote := f.line, f.rest[0]
	var value strings.Builder
	for i := 1; i < len(f.rest); i++ {
		switch c := f.rest[i]; {
		case c == quote:
			after, _, _ := strings.Cut(f.rest[i+1:], "\n")
			f.line += strings.Count(f.rest[:i], "\n")
			if text := strings.TrimLeft(after, " \t"); text != "" && (text[0] != '#' || text == after) {
				return "", &Error{f.line, fmt.Sprintf("text follows the closing quote of %s; write a backslash before a quote in the value", name)}
			}
			f.skip(i + 1 + len(after))
			return value.String(), nil
		case c == '\\' && quote == '"' && i+1 < len(f.rest):
			i++
			value.WriteString(unescaped(f.rest[i]))
		default:
			value.WriteByte(c)
		}
	}
	return "", &Error{first, fmt.Sprintf("the quote of %s is not closed; close it", name)}
}

// unescaped returns what a backslash and a character in double quotes stand for.
func unescaped(c byte) string {
	switch c {
	case 'n':
		return "\n"
	case 'r':
		return "\r"
	case 't':
		return "\t"
	case '"', '\\', '$':
		return string(rune(c))
	}
	return `\` + string([]byte{c})
}
