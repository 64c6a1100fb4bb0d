// Package sbatch owns the reading of scripts that were written for sbatch, the submission program of Slurm. It promises that
// no line of such a script is ignored in silence: an option takes effect in the job, or it is refused with its line and
// the remedy, or a warning names it.
package sbatch

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Bounds of a job's spec.
const (
	maxNodes    = 4096
	maxGPUs     = 64
	maxCPU      = 4096
	maxMemoryGB = 65536
	maxSeconds  = 31536000
	maxName     = 128
	maxPool     = 64
	maxNotes    = 4096
)

// MaxScript is the maximum size of a script in bytes.
const MaxScript = 1 << 20

// Script is what a script requests. Numbers that are 0 and texts that are empty are unset.
type Script struct {
	// Interpreter is the program of the first line, with its arguments.
	Interpreter []string
	// Name is the name of the job.
	Name string
	// Pool is the name of the pool, which Slurm calls a partition.
	Pool string
	// Nodes is the number of nodes, at least 1.
	Nodes int
	// GPUsPerNode and CPU are numbers for each node.
	GPUsPerNode, CPU int
	// MemoryGB is the memory of each node in units of 2^30 bytes.
	MemoryGB int
	// RunningS is how many seconds the job may run.
	RunningS int
	// Notes is the comment of the script.
	Notes string
	// NoRetry states that a failed attempt must not be repeated.
	NoRetry bool
	// Output is the pattern of the file in which the user expects the output; see OutputPath.
	Output string
	// OutputLine is the line of Output; 0 if there is none.
	OutputLine int
	// Warnings name the lines that have no effect, or another one than with Slurm.
	Warnings []string
}

// Overrides are the flags of the command line. They win over the lines of a script, which then need not be valid.
type Overrides struct {
	Name, Pool string
	// Nodes and RunningS are 0 if the flag was not given.
	Nodes, RunningS int
	// GPUsPerNode is nil if the flag was not given; 0 requests no GPU.
	GPUsPerNode *int
}

// Refusal is one part of a script that cannot take effect.
type Refusal struct {
	// Line is counted from 1.
	Line int
	// Name is the option, the command or the variable.
	Name string
	// Problem states what is wrong, and the remedy.
	Problem string
}

// RefusedErrors are all refused parts of one script, by line.
type RefusedErrors []Refusal

// Error implements error. It has one line for each refusal.
func (r RefusedErrors) Error() string {
	lines := make([]string, len(r))
	for i, one := range r {
		lines[i] = fmt.Sprintf("line %d: %s %s", one.Line, one.Name, one.Problem)
	}
	return strings.Join(lines, "\n")
}

// Read returns what a script requests, with the flags of the command line. The error contains RefusedErrors for everything that
// cannot take effect.
func Read(text string, flags Overrides) (*Script, error) {
	r := &reader{flags: flags, options: options(), chosen: map[string]setting{}, script: &Script{}}
	if refused := unreadable(text); refused != nil {
		return nil, RefusedErrors{*refused}
	}
	lines := strings.Split(text, "\n")
	r.script.Interpreter = Interpreter(text)
	first := r.header(lines)
	r.afterHeader(lines, first)
	r.resolve()
	if Shell(r.script.Interpreter) {
		r.refusals = append(r.refusals, checkBody(strings.Join(lines[first:], "\n"), first+1)...)
	}
	if len(r.refusals) > 0 {
		slices.SortStableFunc(r.refusals, func(a, b Refusal) int { return cmp.Compare(a.Line, b.Line) })
		return nil, r.refusals
	}
	return r.script, nil
}

// unreadable returns why a text is not a script, or nil if it is one. sbatch refuses the same texts.
func unreadable(text string) *Refusal {
	at := func(i int) int { return 1 + strings.Count(text[:i], "\n") }
	if len(text) > MaxScript {
		return &Refusal{1, "the script", fmt.Sprintf("is longer than %d bytes; put data into files of its folder", MaxScript)}
	}
	if i := strings.IndexByte(text, 0); i >= 0 {
		return &Refusal{at(i), "the script", "contains NUL; submit a text file"}
	}
	if i := strings.Index(text, "\r\n"); i >= 0 {
		return &Refusal{at(i), "the line", "ends as in a file of Windows, which shells do not understand; convert the script with dos2unix"}
	}
	if len(Interpreter(text)) == 0 {
		return &Refusal{1, "the script", "must begin with #! and an interpreter; write #!/bin/bash as its first line"}
	}
	return nil
}

// Has reports whether a text has lines with options of sbatch.
func Has(text string) bool {
	return strings.HasPrefix(text, directive) || strings.Contains(text, "\n"+directive)
}

// Interpreter returns the program of the first line of a script and its arguments: as in Linux, all text after the program is one
// argument. It returns nil if the line names none.
func Interpreter(script string) []string {
	line, _, _ := strings.Cut(script, "\n")
	text, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return nil
	}
	text = strings.TrimSpace(text)
	program, argument := text, ""
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		program, argument = text[:i], strings.TrimSpace(text[i:])
	}
	switch {
	case program == "":
		return nil
	case argument == "":
		return []string{program}
	}
	return []string{program, argument}
}

// Shell reports whether an interpreter is a shell, whose commands can be checked.
func Shell(interpreter []string) bool {
	name := path.Base(interpreter[0])
	if name == "env" && len(interpreter) > 1 {
		program, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(interpreter[1], "-S ")), " ")
		name = path.Base(program)
	}
	switch name {
	case "sh", "bash", "dash", "ksh", "zsh":
		return true
	}
	return false
}

// OutputPath returns the name of a file of a pattern in Output: %j is the id of the job, %x its name and %u the user. Only the pattern can
// name folders: a slash in one of the three becomes an underscore, and so does a dot of a part that would be "." or "..".
func OutputPath(pattern, job, name, user string) string {
	one := func(text string) string { return strings.NewReplacer("/", "_", `\`, "_", "\x00", "_").Replace(text) }
	values := strings.NewReplacer("%%", "%", "%j", one(job), "%x", one(name), "%u", one(user))
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		if parts[i] = values.Replace(part); parts[i] == part {
			continue
		}
		switch parts[i] {
		case "":
			parts[i] = "_"
		case ".", "..":
			parts[i] = strings.ReplaceAll(parts[i], ".", "_")
		}
	}
	return strings.Join(parts, "/")
}
