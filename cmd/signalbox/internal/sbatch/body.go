package sbatch

import (
	"path"
	"strings"
)

// Kinds of frames.
const (
	plain      = 'p'
	inQuotes   = '"'
	substitute = '('
	arithmetic = 'a'
	backquotes = '`'
)

// frame is a part of a script that ends with a bracket or a quote.
type frame struct {
	kind byte
	word strings.Builder
	// command states that the next word is a command, target that it is a file, and sourced that it is a file of commands.
	command, target, sourced bool
	// runner is the program before the command that runs it, or nil. Of its words before the command, values are the next ones that belong
	// to an option, and operands those that are left.
	runner           *runner
	values, operands int
	// cases is the number of open cases, choice states that the word "in" of one comes, and pattern that a pattern comes.
	cases           int
	choice, pattern bool
}

// begin states that a command comes.
func (f *frame) begin() {
	f.command, f.target, f.sourced, f.runner, f.values, f.operands = true, false, false, nil, 0, 0
}

// scanner finds the commands and variables of a shell script. It does not follow text that becomes a command only
// when the script runs, such as that of eval.
type scanner struct {
	text     string
	at, line int
	frames   []*frame
	heredocs []string
	found    RefusedErrors
}

// checkBody returns the commands and variables of Slurm, and other commands, that a node does not have. The text begins
// at the given line.
func checkBody(text string, line int) RefusedErrors {
	s := &scanner{text: text, line: line, frames: []*frame{{kind: plain, command: true}}}
	for s.at < len(s.text) {
		s.step()
	}
	s.endWord()
	return s.found
}

func (s *scanner) top() *frame { return s.frames[len(s.frames)-1] }

// write adds text to the word that the current part belongs to: text in double quotes is a part of the word around it.
func (s *scanner) write(text string) {
	f := s.top()
	if f.kind == inQuotes {
		f = s.frames[len(s.frames)-2]
	}
	f.word.WriteString(text)
}

func (s *scanner) push(kind byte, length int) {
	if kind != inQuotes {
		s.write("?") // what the part becomes is unknown
	}
	s.frames = append(s.frames, &frame{kind: kind, command: true})
	s.at += length
}

func (s *scanner) pop() {
	s.endWord()
	if len(s.frames) > 1 {
		s.frames = s.frames[:len(s.frames)-1]
	} else { // one bracket too many
		s.top().begin()
	}
	s.at++
}

// step reads one character, or all of a part that contains no commands.
func (s *scanner) step() {
	f, c, rest := s.top(), s.text[s.at], s.text[s.at:]
	switch {
	case c == '\n' && f.kind != inQuotes && f.kind != arithmetic:
		s.endWord()
		f.begin()
		s.newline()
	case c == '\n':
		s.line++
		s.at++
	case c == '\\':
		s.escape()
	case strings.HasPrefix(rest, "$(("):
		s.push(arithmetic, 2)
		s.push(arithmetic, 1)
	case strings.HasPrefix(rest, "$("):
		s.push(substitute, 2)
	case c == '`' && f.kind == backquotes:
		s.pop()
	case c == '`':
		s.push(backquotes, 1)
	case strings.HasPrefix(rest, "$'") && f.kind != inQuotes && f.kind != arithmetic:
		s.escaped(f)
	case c == '$':
		s.variable()
	case c == '"' && f.kind == inQuotes:
		s.frames = s.frames[:len(s.frames)-1]
		s.at++
	case c == ')' && f.kind == arithmetic:
		s.frames = s.frames[:len(s.frames)-1]
		s.at++
	case f.kind == inQuotes:
		s.write(rest[:1])
		s.at++
	case c == '(' && f.kind == arithmetic:
		s.push(arithmetic, 1)
	case f.kind == arithmetic:
		s.at++
	default:
		s.plain(f, c, rest)
	}
}

// plain reads a character outside of quotes.
func (s *scanner) plain(f *frame, c byte, rest string) {
	switch {
	case c == '\'':
		s.literal(f)
	case c == '"':
		s.push(inQuotes, 1)
	case c == '#' && f.word.Len() == 0 && (s.at == 0 || strings.IndexByte(" \t\n;&|()", s.text[s.at-1]) >= 0):
		if n := strings.IndexByte(rest, '\n'); n >= 0 {
			s.at += n
		} else {
			s.at = len(s.text)
		}
	case strings.HasPrefix(rest, "<<") && !strings.HasPrefix(rest, "<<<"):
		s.endBefore(f)
		s.heredoc()
	case c == '<' || c == '>':
		s.endBefore(f)
		f.target = true
		s.at += len(rest) - len(strings.TrimLeft(rest, "<>&"))
	case c == ';' || c == '&' || c == '|':
		s.endWord()
		f.begin()
		s.at++
		if f.cases > 0 && c == ';' && len(rest) > 1 && (rest[1] == ';' || rest[1] == '&') {
			f.pattern = true
			s.at += len(rest[1:]) - len(strings.TrimLeft(rest[1:], ";&"))
		}
	case c == '(' || c == ')':
		s.bracket(f, c, rest)
	case c == ' ' || c == '\t':
		s.endWord()
		s.at++
	default:
		f.word.WriteByte(c)
		s.at++
	}
}

// bracket reads a bracket outside of quotes.
func (s *scanner) bracket(f *frame, c byte, rest string) {
	switch {
	case f.pattern:
		s.endWord()
		f.pattern = f.pattern && c == '('
		f.begin()
		s.at++
	case c == ')':
		s.pop()
	case strings.HasPrefix(rest, "((") && f.word.Len() == 0:
		s.push(arithmetic, 1)
		s.push(arithmetic, 1)
		f.word.Reset()
		f.begin()
	default:
		s.push(substitute, 1)
		f.word.Reset()
	}
}

// escape reads a backslash and the character after it.
func (s *scanner) escape() {
	if s.at+1 < len(s.text) {
		if s.text[s.at+1] == '\n' {
			s.line++
		} else {
			s.write(s.text[s.at+1 : s.at+2])
		}
	}
	s.at += 2
}

// literal reads a text in single quotes.
func (s *scanner) literal(f *frame) {
	text := s.text[s.at+1:]
	if n := strings.IndexByte(text, '\''); n >= 0 {
		text = text[:n]
	}
	f.word.WriteString(text)
	s.line += strings.Count(text, "\n")
	s.at += len(text) + 2
}

// escaped reads a text in $'...', in which a backslash takes the meaning of a quote.
func (s *scanner) escaped(f *frame) {
	for s.at += 2; s.at < len(s.text) && s.text[s.at] != '\''; s.at++ {
		if s.text[s.at] == '\\' && s.at+1 < len(s.text) {
			s.at++
		}
		if s.text[s.at] == '\n' {
			s.line++
		}
		f.word.WriteByte(s.text[s.at])
	}
	s.at++
}

// heredoc reads the operator << and the word that ends the text, which begins on the next line.
func (s *scanner) heredoc() {
	rest := strings.TrimLeft(strings.TrimPrefix(s.text[s.at+2:], "-"), " \t")
	end := strings.IndexAny(rest, " \t\n;&|<>()")
	if end < 0 {
		end = len(rest)
	}
	s.heredocs = append(s.heredocs, strings.Trim(rest[:end], `'"\`))
	s.at = len(s.text) - len(rest) + end
}

// newline reads the end of a line and the texts of the operators << on it, which are data and not commands.
func (s *scanner) newline() {
	s.at++
	s.line++
	for _, end := range s.heredocs {
		for s.at < len(s.text) {
			line, _, _ := strings.Cut(s.text[s.at:], "\n")
			s.at = min(s.at+len(line)+1, len(s.text))
			s.line++
			if strings.TrimLeft(line, "\t") == end {
				break
			}
		}
	}
	s.heredocs = nil
}

// variable reads $NAME and ${NAME}. A variable with a default may be one of Slurm.
func (s *scanner) variable() {
	rest := s.text[s.at+1:]
	name := strings.TrimPrefix(rest, "{")
	braces := len(rest) - len(name)
	name = strings.TrimLeft(name, "#!")
	after := strings.TrimLeft(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
	name = name[:len(name)-len(after)]
	hasDefault := braces == 1 && strings.IndexAny(strings.TrimPrefix(after, ":"), "-=+") == 0
	if strings.HasPrefix(name, "SLURM_") && !hasDefault {
		before := s.text[strings.LastIndexByte(s.text[:s.at], '\n')+1 : s.at]
		s.refuse("$"+name, "is a variable of Slurm, which is not set here; "+variableRemedy(name, strings.Trim(before, " \t\"")))
	}
	s.write("?")
	s.at = len(s.text) - len(after)
}

func (s *scanner) refuse(name, problem string) {
	for _, one := range s.found {
		if one.Line == s.line && one.Name == name {
			return
		}
	}
	s.found = append(s.found, Refusal{Line: s.line, Name: name, Problem: problem})
}

// endBefore reads the word before an operator such as >. A number is a part of the operator, as in 2>.
func (s *scanner) endBefore(f *frame) {
	if strings.Trim(f.word.String(), "0123456789") == "" {
		f.word.Reset()
	}
	s.endWord()
}

// endWord reads a complete word.
func (s *scanner) endWord() {
	f := s.top()
	word := f.word.String()
	f.word.Reset()
	switch {
	case word == "":
	case f.target:
		f.target = false
	case f.pattern:
		if word == "esac" {
			f.pattern = false
			f.cases--
			f.begin()
		}
	case f.choice:
		f.pattern = word == "in"
		f.choice = !f.pattern
	case f.sourced:
		f.sourced = false
		if remedy := fileRemedy(word); remedy != "" {
			s.refuse(path.Base(word), remedy)
		}
	case f.command:
		s.command(f, word)
	}
}

// command reads a word that is a command, or stands before one.
func (s *scanner) command(f *frame, word string) {
	name := path.Base(word)
	switch {
	case f.values > 0:
		f.values--
	case f.runner != nil && strings.HasPrefix(word, "-"):
		f.values = f.runner.valuesAfter(word)
		f.command = !f.runner.endsWith(word)
	case f.operands > 0:
		f.operands--
	case word == "esac":
		f.cases = max(f.cases-1, 0)
		f.begin()
	case reserved(word):
		f.begin()
	case assignment(word):
	case runnerOf(name) != nil:
		f.runner = runnerOf(name)
		f.operands = f.runner.operands
	default:
		f.command, f.sourced = false, word == "source" || word == "."
		if word == "case" {
			f.choice = true
			f.cases++
		}
		if remedy := commandRemedy(name); remedy != "" {
			s.refuse(name, "is a command that a node does not have; "+remedy)
		}
	}
}
