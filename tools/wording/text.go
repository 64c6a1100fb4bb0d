package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// statement matches SQL. Its words are names and keywords, not prose.
var statement = regexp.MustCompile(`^\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP|GRANT|REVOKE|SET)\b`)

// data matches the beginning of JSON that may contain format verbs, the beginning of a regular expression, and a type
// of Python that is in quotes.
var data = regexp.MustCompile(`^\s*[{\[]\s*(?:"|[{\[]\s*")|^\[\^|^\[[^\]]+\][+*?{]|^\w+(?: \| \w+)+$`)

// message reports whether a string is prose. A string without a space is a name or a value.
func message(text string) bool {
	return strings.Contains(text, " ") && !statement.MatchString(text) && !data.MatchString(text) && !json.Valid([]byte(text))
}

// quoting is how a language writes strings and comments.
type quoting struct {
	comment string // the characters that begin a comment, if they begin a word
	quotes  string // the characters that enclose a string
	long    string // those quotes whose strings may contain line breaks
}

func pythonQuoting() quoting { return quoting{comment: "#", quotes: `"'`} }
func scriptQuoting() quoting { return quoting{comment: "//", quotes: "\"'`", long: "`"} }
func shellQuoting() quoting  { return quoting{comment: "#", quotes: `"'`, long: `"'`} }

// stringPassages returns the strings in raw that are prose.
func stringPassages(raw []byte, q quoting) []passage {
	var out []passage
	line, wordBegins := 1, true
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case wordBegins && bytes.HasPrefix(raw[i:], []byte(q.comment)):
			i += lineLength(raw[i:]) - 1
		case c == '\\':
			i++ // an escaped quote does not begin a string
			if i < len(raw) && raw[i] == '\n' {
				line++
			}
		case strings.IndexByte(q.quotes, c) >= 0:
			text := stringAt(raw[i+1:], c, strings.IndexByte(q.long, c) >= 0)
			if message(text) {
				out = append(out, passage{line: line, text: text})
			}
			line += strings.Count(text, "\n")
			i += len(text)
			if i+1 < len(raw) && raw[i+1] == c {
				i++
			}
		}
		if c == '\n' {
			line++
		}
		wordBegins = c == ' ' || c == '\t' || c == '\n'
	}
	return out
}

// lineLength returns the number of bytes before the end of the first line.
func lineLength(raw []byte) int {
	if end := bytes.IndexByte(raw, '\n'); end >= 0 {
		return end
	}
	return len(raw)
}

// stringAt returns the text up to the quote that is not escaped, or up to the end of the line if the string cannot
// contain line breaks.
func stringAt(raw []byte, quote byte, long bool) string {
	for i := 0; i < len(raw); i++ {
		switch {
		case raw[i] == quote, raw[i] == '\n' && !long:
			return string(raw[:i])
		case raw[i] == '\\':
			i++
		}
	}
	return string(raw)
}

// markup matches what is not text in an HTML template. Comments are text.
var markup = regexp.MustCompile(`(?s)<!--|-->|\{\{.*?\}\}|<script\b.*?</script>|<style\b.*?</style>|<[^>]*>`)

// htmlPassages returns the lines of text in an HTML template.
func htmlPassages(raw []byte) []passage {
	text := markup.ReplaceAllFunc(raw, func(m []byte) []byte {
		return bytes.Repeat([]byte("\n"), bytes.Count(m, []byte("\n")))
	})
	return lines(text, func(line string) (string, bool) { return line, true })
}

// yamlPassages returns the values in a YAML file that are prose.
func yamlPassages(path string, raw []byte) ([]passage, []finding) {
	var out []passage
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	for {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, []finding{{path: path, line: 1, word: "syntax", hint: err.Error()}}
		}
		out = append(out, yamlValues(&document)...)
	}
}

func yamlValues(n *yaml.Node) []passage {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && message(n.Value) {
		line := n.Line
		if n.Style&yaml.LiteralStyle != 0 {
			line++ // the text begins below the | character
		}
		return []passage{{line: line, text: n.Value}}
	}
	var out []passage
	for i, child := range n.Content {
		if n.Kind != yaml.MappingNode || i%2 == 1 { // the children of a mapping are alternately keys and values
			out = append(out, yamlValues(child)...)
		}
	}
	return out
}

// rulesCell returns the last cell of a row of docs/rules.md, without the cell that quotes the specification. It returns
// lines outside the table unchanged.
func rulesCell(line string) (string, bool) {
	row, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
	if !ok {
		return line, true
	}
	row = strings.TrimSuffix(row, "|")
	return row[strings.LastIndex(row, "|")+1:], true
}
