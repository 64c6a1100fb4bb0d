package sbatch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// directive is the beginning of a line with options.
const directive = "#SBATCH"

// setting is an option of a line.
type setting struct {
	line  int
	value string
}

// reader reads one script.
type reader struct {
	flags   Overrides
	options []option
	// chosen has the settings by the long name of the option. As in sbatch, the last line with an option counts.
	chosen   map[string]setting
	script   *Script
	refusals RefusedErrors
}

func (r *reader) refuse(line int, name, problem string, args ...any) {
	r.refusals = append(r.refusals, Refusal{Line: line, Name: name, Problem: fmt.Sprintf(problem, args...)})
}

func (r *reader) warn(line int, format string, args ...any) {
	r.script.Warnings = append(r.script.Warnings, fmt.Sprintf("line %d: ", line)+fmt.Sprintf(format, args...))
}

// header reads the options until the first line that is neither empty nor a comment, and returns the index of this line.
func (r *reader) header(lines []string) int {
	for i, line := range lines {
		text := strings.TrimSpace(line)
		switch options, ok := strings.CutPrefix(line, directive); {
		case ok:
			r.directive(i+1, options)
		case text != "" && !strings.HasPrefix(text, "#"):
			return i
		}
	}
	return len(lines)
}

// afterHeader warns of lines with options that come too late.
func (r *reader) afterHeader(lines []string, first int) {
	for i := first; i < len(lines); i++ {
		if strings.HasPrefix(lines[i], directive) {
			r.warn(i+1, "%s after the first command has no effect; move the line up if it should have one", directive)
		}
	}
}

// directive reads the options of one line.
func (r *reader) directive(line int, text string) {
	words, err := split(text)
	if err != nil {
		r.refuse(line, directive, "%s", err)
		return
	}
	for len(words) > 0 {
		word := words[0]
		switch {
		case strings.HasPrefix(word, "--") && len(word) > 2:
			words = r.long(line, word[2:], words[1:])
		case strings.HasPrefix(word, "-") && len(word) > 1 && word != "--":
			words = r.short(line, word[1:], words[1:])
		case word == "hetjob" || word == "packjob":
			r.refuse(line, word, "has no meaning here; all nodes of a script are alike, so submit the parts as separate scripts")
			return
		default:
			r.refuse(line, word, "is not an option; put a value that contains spaces into quotes")
			return
		}
	}
}

// long reads an option such as --nodes=2 or --nodes 2, and returns the words after it. As in sbatch, the beginning of a
// name is enough if only one option begins with it.
func (r *reader) long(line int, word string, rest []string) []string {
	name, value, given := strings.Cut(word, "=")
	found := slices.DeleteFunc(slices.Clone(r.options), func(o option) bool { return !strings.HasPrefix(o.long, name) })
	if i := slices.IndexFunc(found, func(o option) bool { return o.long == name }); i >= 0 {
		found = found[i : i+1]
	}
	switch {
	case name == "" || len(found) == 0:
		r.refuse(line, "--"+name, "is not an option of sbatch; correct its name or remove it")
		return nil
	case len(found) > 1:
		r.refuse(line, "--"+name, "can be --%s or --%s; write the whole name", found[0].long, found[1].long)
		return nil
	case given && found[0].value == '-':
		r.refuse(line, "--"+found[0].long, "has no value; remove the text after it")
		return rest
	case given || found[0].value != '=':
		r.choose(line, "--"+found[0].long, found[0], value)
		return rest
	}
	return r.withNext(line, "--"+found[0].long, found[0], rest)
}

// short reads options such as -N2 or -N 2, and returns the words after them. Several options without a value can share a
// word.
func (r *reader) short(line int, word string, rest []string) []string {
	for word != "" {
		letter := word[:1]
		word = word[1:]
		i := slices.IndexFunc(r.options, func(o option) bool { return o.short == letter })
		if i < 0 {
			r.refuse(line, "-"+letter, "is not an option of sbatch; correct its name or remove it")
			return nil
		}
		switch o := r.options[i]; {
		case o.value == '-' || o.value == '?' && word == "":
			r.choose(line, "-"+letter, o, "")
		case word != "":
			r.choose(line, "-"+letter, o, word)
			return rest
		default:
			return r.withNext(line, "-"+letter, o, rest)
		}
	}
	return rest
}

// withNext reads an option whose value is the next word.
func (r *reader) withNext(line int, name string, o option, rest []string) []string {
	if len(rest) == 0 {
		r.refuse(line, name, "has no value; add one")
		return nil
	}
	r.choose(line, name, o, rest[0])
	return rest[1:]
}

// choose stores a setting, or refuses an option that has no meaning here.
func (r *reader) choose(line int, name string, o option, value string) {
	switch {
	case o.remedy != "":
		r.refuse(line, name, "has no meaning here; %s", o.remedy)
	case o.value == '=' && strings.TrimSpace(value) == "":
		r.refuse(line, name, "has an empty value; add one or remove the option")
	default:
		if o.long == "tasks-per-node" {
			o.long = "ntasks-per-node"
		}
		r.chosen[o.long] = setting{line: line, value: value}
	}
}

var (
	errOpenQuote = errors.New("has a quote that is not closed; close it on the same line")
	errOpenSlash = errors.New("ends with a backslash; write each line of options completely")
)

// split returns the words of a line with options. Words can be quoted, and # begins a comment.
func split(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	open, quote := false, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && quote != '\'':
			if i+1 == len(text) {
				return nil, errOpenSlash
			}
			i++
			word.WriteByte(text[i])
			open = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '"' || c == '\'':
			quote, open = c, true
		case c == ' ' || c == '\t' || c == '\r':
			if open {
				words = append(words, word.String())
				word.Reset()
			}
			open = false
		case c == '#' && !open:
			return words, nil
		default:
			word.WriteByte(c)
			open = true
		}
	}
	if quote != 0 {
		return nil, errOpenQuote
	}
	if open {
		words = append(words, word.String())
	}
	return words, nil
}
