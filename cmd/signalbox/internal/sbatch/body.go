package sbatch

import (
	"path"
	"strings"
)

// commandRemedy returns what to do in place of a command that does not exist on a node, or "" for other commands.
func commandRemedy(name string) string {
	switch name {
	case "srun":
		return "remove srun, because the script runs on every node, and start the processes of a node with torchrun"
	case "scontrol":
		return "use $SERVICE_JOB_MASTER_ADDR for the first node and $SERVICE_JOB_NODE_RANK for the number of this one"
	case "sbatch", "salloc":
		return "submit the other job yourself with signalbox run"
	case "squeue", "sacct", "scancel", "sinfo", "sstat", "sattach", "sprio":
		return "remove it, and use signalbox jobs on your own machine"
	case "sbcast":
		return "remove it; the submitted folder is on every node"
	case "module", "ml":
		return "remove it, and choose an interpreter of the node with --python"
	case "conda", "mamba", "micromamba":
		return "remove it, and choose the environment with --python or --requirements"
	case "apptainer", "singularity", "enroot":
		return "start the program without a container, and choose the environment with --python or --requirements"
	}
	return ""
}

// variableRemedy returns what to use in place of a variable of Slurm.
func variableRemedy(name string) string {
	switch name {
	case "SLURM_NNODES", "SLURM_JOB_NUM_NODES":
		return "use SERVICE_JOB_NNODES"
	case "SLURM_NODEID":
		return "use SERVICE_JOB_NODE_RANK"
	case "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE":
		return "use SERVICE_JOB_GPUS_PER_NODE"
	case "SLURM_JOB_NODELIST", "SLURM_NODELIST":
		return "use SERVICE_JOB_MASTER_ADDR, the address of the first node"
	case "SLURM_JOB_ID", "SLURM_JOBID":
		return "use SERVICE_JOB_ID"
	case "SLURM_SUBMIT_DIR":
		return "remove it; the script runs in the submitted folder"
	case "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS":
		return "start the processes with torchrun, which sets RANK, LOCAL_RANK and WORLD_SIZE"
	}
	return "give it a default, as in ${" + name + ":-1}"
}

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
	} else { // the pattern of a case
		s.top().command = true
	}
	s.at++
}

// step reads one character, or all of a part that contains no commands.
func (s *scanner) step() {
	f, c, rest := s.top(), s.text[s.at], s.text[s.at:]
	switch {
	case c == '\n' && f.kind != inQuotes && f.kind != arithmetic:
		s.endWord()
		f.command, f.target = true, false
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
		s.endWord()
		s.heredoc()
	case c == '<' || c == '>':
		s.endWord()
		f.target = true
		s.at += len(rest) - len(strings.TrimLeft(rest, "<>&"))
	case c == ';' || c == '&' || c == '|':
		s.endWord()
		f.command, f.target = true, false
		s.at++
	case c == '(':
		s.push(substitute, 1)
		s.frames[len(s.frames)-2].word.Reset()
	case c == ')':
		s.pop()
	case c == ' ' || c == '\t':
		s.endWord()
		s.at++
	default:
		f.word.WriteByte(c)
		s.at++
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
		s.refuse("$"+name, "is a variable of Slurm, which is not set here; "+variableRemedy(name))
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

// endWord reads a complete word.
func (s *scanner) endWord() {
	f := s.top()
	word := f.word.String()
	f.word.Reset()
	switch {
	case word == "":
	case f.target:
		f.target = false
	case f.sourced:
		f.sourced = false
		if base := path.Base(word); base == "activate" || base == "conda.sh" {
			s.refuse(base, "is an environment of your machine, which a node does not have; choose the environment with --python or --requirements")
		}
	case f.command && !prefix(word):
		f.command, f.sourced = false, word == "source" || word == "."
		if remedy := commandRemedy(path.Base(word)); remedy != "" {
			s.refuse(path.Base(word), "is a command that a node does not have; "+remedy)
		}
	}
}

// prefix reports whether a command follows a word: a reserved word, an assignment, or a program that runs another one.
func prefix(word string) bool {
	switch word {
	case "if", "then", "elif", "else", "while", "until", "do", "!", "{", "}", "fi", "done", "esac", "time", "exec", "eval", "command", "builtin",
		"nohup", "sudo", "env", "export":
		return true
	}
	name, _, assigned := strings.Cut(word, "=")
	return assigned && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+[]") == ""
}
