// Package ownjob owns the submission of a user's own command. It promises that each flag and each line of a script has its
// effect in the request, and that flags win over lines.
package ownjob

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/sbatch"
)

const (
	// Recipe is the recipe that runs a command of the user.
	Recipe = "custom/custom"

	maxNodes = 4096
	maxGPUs  = 64
	maxName  = 128
	maxTime  = 365 * 24 * time.Hour
)

// Flags are the flags of the command line that change the job. Empty texts and 0 are unset.
type Flags struct {
	// GPUs is the number of GPUs on each node; nil if it is unset.
	GPUs  *int
	Nodes int
	Pool  string
	// Time is how long the job may run: one of Slurm's formats, or numbers with units such as 90m.
	Time string
	Name string
	// Python is the name of an interpreter of the node, and Requirements the path of a file in the submitted folder.
	Python, Requirements string
}

// Overrides returns the flags that win over the lines of a script. It refuses values that no job can have.
func (f Flags) Overrides() (sbatch.Overrides, error) {
	o := sbatch.Overrides{Name: f.Name, Pool: f.Pool, Nodes: f.Nodes, GPUsPerNode: f.GPUs}
	switch {
	case f.Nodes < 0 || f.Nodes > maxNodes:
		return o, fmt.Errorf("--nodes %d must be a number from 1 to %d", f.Nodes, maxNodes)
	case f.GPUs != nil && (*f.GPUs < 0 || *f.GPUs > maxGPUs):
		return o, fmt.Errorf("--gpus %d must be a number from 0 to %d, the GPUs on each node", *f.GPUs, maxGPUs)
	case f.Time == "":
		return o, nil
	}
	var err error
	if o.RunningS, err = seconds(f.Time); err != nil {
		return o, fmt.Errorf("--time %q %w", f.Time, err)
	}
	return o, nil
}

// seconds reads a time: numbers with units, or one of Slurm's formats.
func seconds(text string) (int, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d == 0 {
		return sbatch.Seconds(text)
	}
	if d < time.Second || d > maxTime {
		return 0, errors.New("must be from one second to one year")
	}
	return int((d + time.Second - 1) / time.Second), nil
}

// Request is what the user wants to submit.
type Request struct {
	Flags Flags
	// Command is the command, or the arguments of the script if there is one.
	Command []string
	// Script is the read script, or nil; it was read with the Overrides of the flags. ScriptPath is its path in the folder.
	Script     *sbatch.Script
	ScriptPath string
	// Env are the variables of the job.
	Env map[string]string
	// Project is the key of the project; empty for the default.
	Project string
	// DefaultPool is the pool of a job for which neither a flag nor a line names one.
	DefaultPool string
}

// Pool returns the pool that a flag or a line names, or "".
func (r Request) Pool() string {
	if r.Script != nil {
		return r.Script.Pool
	}
	return r.Flags.Pool
}

// GPUs returns the number of GPUs that the job requests on each node.
func (r Request) GPUs() int {
	switch {
	case r.Script != nil:
		return r.Script.GPUsPerNode
	case r.Flags.GPUs != nil:
		return *r.Flags.GPUs
	}
	return 0
}

// Spec returns the spec of the job. Its recipe has a name only, and its source has no package.
func Spec(r Request) (map[string]any, error) {
	command, err := r.command()
	if err != nil {
		return nil, err
	}
	script, err := r.sizes()
	if err != nil {
		return nil, err
	}
	name := script.Name
	if name == "" {
		name = nameOf(command, r.ScriptPath)
	}
	spec := map[string]any{
		"name": name, "source": map[string]any{"command": command}, "recipe": map[string]any{"name": Recipe},
		"resources": map[string]any{"pools": []any{r.pool(script)}},
	}
	if r.Project != "" {
		spec["project"] = r.Project
	}
	if len(r.Env) > 0 {
		spec["env"] = maps.Clone(r.Env)
	}
	if script.RunningS > 0 {
		spec["limits"] = map[string]any{"running_s": script.RunningS}
	}
	if script.Notes != "" {
		spec["notes"] = script.Notes
	}
	if script.NoRetry {
		spec["retry"] = map[string]any{"max": 0}
	}
	switch runtime, err := r.runtime(); {
	case err != nil:
		return nil, err
	case runtime != nil:
		spec["runtime"] = runtime
	}
	return spec, nil
}

// command returns the command that a node runs.
func (r Request) command() ([]string, error) {
	command := r.Command
	if r.Script != nil {
		file, err := inFolder(r.ScriptPath)
		if err != nil {
			return nil, fmt.Errorf("the script %q %w", r.ScriptPath, err)
		}
		command = slices.Concat(r.Script.Interpreter, []string{file}, r.Command)
	}
	if len(command) == 0 || command[0] == "" {
		return nil, errors.New("the command is missing; name it, as in: signalbox run -- python train.py")
	}
	for _, word := range command {
		if strings.ContainsRune(word, 0) {
			return nil, errors.New("the command contains NUL; remove it")
		}
	}
	return command, nil
}

// sizes returns the script, or what the flags request if there is no script.
func (r Request) sizes() (*sbatch.Script, error) {
	if r.Script != nil {
		return r.Script, nil
	}
	o, err := r.Flags.Overrides()
	if err != nil {
		return nil, err
	}
	s := &sbatch.Script{Name: o.Name, Pool: o.Pool, Nodes: max(o.Nodes, 1), RunningS: o.RunningS}
	if o.GPUsPerNode != nil {
		s.GPUsPerNode = *o.GPUsPerNode
	}
	return s, nil
}

// pool returns the request of nodes.
func (r Request) pool(s *sbatch.Script) map[string]any {
	out := map[string]any{"pool": cmp.Or(s.Pool, r.DefaultPool), "nodes": s.Nodes}
	for name, n := range map[string]int{"gpus_per_node": s.GPUsPerNode, "cpu": s.CPU, "memory_gb": s.MemoryGB} {
		if n > 0 {
			out[name] = n
		}
	}
	return out
}

// runtime returns the environment of the command, or nil for that of the recipe.
func (r Request) runtime() (map[string]any, error) {
	switch f := r.Flags; {
	case f.Python != "" && f.Requirements != "":
		return nil, errors.New("--python and --requirements exclude each other; keep one")
	case f.Python != "":
		return map[string]any{"node": f.Python}, nil
	case f.Requirements != "":
		file, err := inFolder(f.Requirements)
		if err != nil {
			return nil, fmt.Errorf("--requirements %q %w", f.Requirements, err)
		}
		return map[string]any{"requirements": file}, nil
	}
	return nil, nil
}

// inFolder returns a path with slashes, if it stays in the submitted folder.
func inFolder(file string) (string, error) {
	if !filepath.IsLocal(file) || filepath.Clean(file) == "." {
		return "", errOutside
	}
	return filepath.ToSlash(filepath.Clean(file)), nil
}

// nameOf returns the name of a job without one: that of the script, the first file of code in the command, or the program.
func nameOf(command []string, script string) string {
	file := command[0]
	if i := slices.IndexFunc(command, func(word string) bool { return slices.Contains([]string{".py", ".sh"}, path.Ext(word)) }); i >= 0 {
		file = command[i]
	}
	if script != "" {
		file = filepath.ToSlash(script)
	}
	base := path.Base(file)
	if name := strings.TrimSuffix(base, path.Ext(base)); name != "" {
		base = name
	}
	runes := []rune(base)
	return string(runes[:min(len(runes), maxName)])
}
