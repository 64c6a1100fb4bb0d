package main

import (
	"regexp"
	"strings"
)

// docstring matches the beginning of a line that consists of a triple-quoted string.
var docstring = regexp.MustCompile(`^\s*[rRuU]?("""|''')`)

// splitPython returns the docstrings of a Python file, and the file with empty lines instead of the docstrings and of
// the inner lines of other triple-quoted strings. Comments in the second result are real comments, with their line
// numbers.
// A docstring is a triple-quoted string that begins the file or follows a line that ends with a colon.
func splitPython(raw []byte) (docstrings []passage, code []byte) {
	quote, inDocstring := "", false
	previous := ":" // The beginning of the file is treated like the header of a function.
	n := 0
	for line := range strings.Lines(string(raw)) {
		n++
		if quote != "" {
			text, _, ended := strings.Cut(line, quote)
			if inDocstring {
				docstrings[len(docstrings)-1].text += text
			}
			if ended {
				quote = ""
			}
			code = append(code, '\n')
			continue
		}
		if m := docstring.FindStringSubmatch(line); m != nil && strings.HasSuffix(previous, ":") {
			text, _, ended := strings.Cut(line[len(m[0]):], m[1])
			docstrings = append(docstrings, passage{line: n, text: text})
			if !ended {
				quote, inDocstring = m[1], true
			}
			previous = ""
			code = append(code, '\n')
			continue
		}
		quote, inDocstring = unclosed(line), false
		if statement, _, _ := strings.Cut(line, "#"); strings.TrimSpace(statement) != "" {
			previous = strings.TrimSpace(statement)
		}
		code = append(code, line...)
	}
	return docstrings, code
}

// unclosed returns the quotes of the triple-quoted string that a line opens and does not close, or "".
func unclosed(line string) string {
	for {
		at := strings.IndexAny(line, `"'`)
		if at < 0 {
			return ""
		}
		line = line[at:]
		quote := ""
		for _, q := range []string{`"""`, `'''`} {
			if strings.HasPrefix(line, q) {
				quote = q
			}
		}
		if quote == "" {
			line = line[1:]
			continue
		}
		_, after, closed := strings.Cut(line[3:], quote)
		if !closed {
			return quote
		}
		line = after
	}
}

// pythonTest matches the definition of a test.
var pythonTest = regexp.MustCompile(`^\s*(?:async )?def (test_\w+)`)

// tripled matches the first line of a triple-quoted string that is not a docstring. Such strings contain data.
var tripled = regexp.MustCompile(`(?m)(?:"""[^\n]*?(?:"""|$))|(?:'''[^\n]*?(?:'''|$))`)

// pythonPassages returns the comments, docstrings and messages of a Python file, and the findings in the names of its tests.
func pythonPassages(path string, raw []byte) ([]passage, []finding) {
	docstrings, code := splitPython(raw)
	var findings []finding
	for _, p := range lines(code, func(line string) (string, bool) { return line, true }) {
		m := pythonTest.FindStringSubmatch(p.text)
		if m == nil {
			continue
		}
		if hint := pythonNameOffence(m[1]); hint != "" {
			findings = append(findings, finding{path: path, line: p.line, word: m[1], hint: hint})
		}
	}
	passages := append(lines(code, after("#")), docstrings...)
	return append(passages, stringPassages(tripled.ReplaceAll(code, nil), pythonQuoting())...), findings
}

// pythonNameOffence returns what is wrong with the name of a Python test, or "" if nothing is. It converts a name such
// as test_run_ends to TestRunEnds, so that the rules of Go tests apply.
func pythonNameOffence(name string) string {
	if len(name) > testNameMax {
		return "at most 70 characters"
	}
	var camel strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		if word != "" {
			camel.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return nameOffence(camel.String())
}

// pythonTexts returns the comments and docstrings of a Python file for the random sample.
func pythonTexts(path string, raw []byte) []drawn {
	docstrings, code := splitPython(raw)
	texts := blocks(path, code, "#")
	for _, p := range docstrings {
		if !strings.Contains(strings.TrimSpace(p.text), " ") {
			continue
		}
		var text []string
		for line := range strings.Lines(strings.TrimSpace(p.text)) {
			text = append(text, strings.TrimSpace(line))
		}
		texts = append(texts, drawn{path, p.line, strings.Join(text, "\n")})
	}
	return texts
}
