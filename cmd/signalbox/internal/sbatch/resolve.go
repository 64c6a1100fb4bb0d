package sbatch

import (
	"strings"
	"unicode/utf8"
)

// resolve sets the fields of the script from the settings and the flags. Settings can come in any order, because some
// depend on others.
func (r *reader) resolve() {
	s := r.script
	s.Name = r.text("job-name", maxName, r.flags.Name)
	s.Notes = r.text("comment", maxNotes, "")
	s.Pool = r.pool()
	s.RunningS = r.time()
	tasks := r.tasks()
	s.GPUsPerNode = r.gpus(tasks)
	s.CPU = r.cpu(tasks)
	s.MemoryGB = r.memory(tasks)
	s.Output, s.OutputLine = r.output(), r.chosen["output"].line
	r.retries()
	r.environment()
	if s.Nodes > 1 {
		s.Warnings = append(s.Warnings, "the script runs on each of its nodes, and not only on the first as with sbatch")
	}
}

// text returns a setting, or the flag if it was given.
func (r *reader) text(name string, most int, flag string) string {
	if flag != "" {
		return flag
	}
	set := r.chosen[name]
	if utf8.RuneCountInString(set.value) > most {
		r.refuse(set.line, "--"+name, "has more than %d characters; shorten it", most)
	}
	return set.value
}

func (r *reader) pool() string {
	pool := r.text("partition", maxPool, r.flags.Pool)
	if r.flags.Pool == "" && strings.Contains(pool, ",") {
		r.refuse(r.chosen["partition"].line, "--partition", "names several pools; keep one, or choose one with --pool")
	}
	return pool
}

func (r *reader) time() int {
	set, ok := r.chosen["time"]
	if r.flags.RunningS != 0 || !ok {
		return r.flags.RunningS
	}
	seconds, err := Seconds(set.value)
	if err != nil {
		r.refuse(set.line, "--time", "%q %s", set.value, err)
	}
	return seconds
}

// number returns a setting that is a number from 1, or 0 if it is unset or refused.
func (r *reader) number(name string, most int) int {
	set, ok := r.chosen[name]
	if !ok {
		return 0
	}
	n, ok := count(set.value)
	if !ok || n < 1 || n > most {
		r.refuse(set.line, "--"+name, "%q is not a number from 1 to %d; write one", set.value, most)
		return 0
	}
	return n
}

// nodes returns the number of nodes, or 0 if it is unset or refused.
func (r *reader) nodes() int {
	set, ok := r.chosen["nodes"]
	if r.flags.Nodes != 0 || !ok {
		return r.flags.Nodes
	}
	least, most, isRange := strings.Cut(set.value, "-")
	if isRange && least != most {
		r.refuse(set.line, "--nodes", "%q is a range, and a job has a fixed number of nodes; write one number", set.value)
		return 0
	}
	r.chosen["nodes"] = setting{line: set.line, value: least}
	return r.number("nodes", maxNodes)
}

// tasks sets the number of nodes and returns the number of tasks on each of them, at least 1. Slurm counts GPUs, CPUs and
// memory by tasks, so that the tasks matter even though Signalbox starts one process on each node.
func (r *reader) tasks() int {
	nodes, total, perNode := r.nodes(), r.number("ntasks", maxNodes*maxGPUs), r.number("ntasks-per-node", maxCPU)
	line := r.chosen["ntasks"].line
	tasks := max(perNode, 1)
	switch {
	case total == 0 || r.flags.Nodes != 0 && perNode != 0:
	case nodes == 0 && perNode == 0:
		tasks = total
	case nodes == 0 && total%perNode != 0:
		r.refuse(line, "--ntasks", "%d is not a multiple of the %d tasks on each node; state --nodes instead", total, perNode)
	case nodes == 0:
		nodes = total / perNode
		if nodes > maxNodes {
			r.refuse(line, "--ntasks", "needs %d nodes, and a job has at most %d; request less", nodes, maxNodes)
		}
	case perNode != 0 && total != nodes*perNode:
		r.refuse(line, "--ntasks", "%d differs from %d nodes with %d tasks; remove the line", total, nodes, perNode)
	case total%nodes != 0:
		r.refuse(line, "--ntasks", "%d tasks cannot be spread evenly over %d nodes; state --ntasks-per-node instead", total, nodes)
	default:
		tasks = total / nodes
	}
	r.script.Nodes = max(nodes, 1)
	return tasks
}

// request is a number for each node that one setting requests.
type request struct {
	line int
	name string
	n    int
}

// agreed returns the number on which all settings agree, or 0 if there are none. It refuses settings that differ from
// the first, and numbers above most.
func (r *reader) agreed(requests []request, what string, most int) int {
	if len(requests) == 0 {
		return 0
	}
	first := requests[0]
	for _, other := range requests[1:] {
		if other.n != first.n {
			r.refuse(other.line, other.name, "requests %d %s on each node, but %s of line %d requests %d; keep one of them",
				other.n, what, first.name, first.line, first.n)
		}
	}
	if first.n > most {
		r.refuse(first.line, first.name, "requests %d %s on each node, and at most %d are possible; request less", first.n, what, most)
		return 0
	}
	return first.n
}

// gpus returns the number of GPUs on each node.
func (r *reader) gpus(tasks int) int {
	if r.flags.GPUsPerNode != nil {
		return *r.flags.GPUsPerNode
	}
	var requests []request
	add := func(name string, read func(string) (string, int, error)) {
		set, ok := r.chosen[name]
		if !ok {
			return
		}
		kind, n, err := read(set.value)
		if err != nil {
			r.refuse(set.line, "--"+name, "%s", err)
			return
		}
		r.gpuType(set.line, "--"+name, kind)
		switch name {
		case "gpus-per-task":
			n *= tasks
		case "gpus":
			if n%r.script.Nodes != 0 {
				r.refuse(set.line, "--"+name, "%d GPUs cannot be spread evenly over %d nodes; state --gpus-per-node instead",
					n, r.script.Nodes)
				return
			}
			n /= r.script.Nodes
		}
		requests = append(requests, request{set.line, "--" + name, n})
	}
	add("gpus-per-node", gpuCount)
	add("gres", gresCount)
	add("gpus", gpuCount)
	add("gpus-per-task", gpuCount)
	return r.agreed(requests, "GPUs", maxGPUs)
}

// gpuType refuses a type of GPU, unless the user has chosen a pool, which decides the type.
func (r *reader) gpuType(line int, name, kind string) {
	switch {
	case kind == "":
	case r.flags.Pool != "":
		r.warn(line, "the type %s of %s has no effect; the pool %s decides the type", kind, name, r.flags.Pool)
	default:
		r.refuse(line, name, "requests the type %s, which has no meaning here; remove it, or choose a pool with such GPUs with --pool", kind)
	}
}

// cpu returns the number of CPUs on each node. Without a request, none are reserved: one for each task, as in Slurm, would
// be too few for training.
func (r *reader) cpu(tasks int) int {
	var requests []request
	if n := r.number("cpus-per-task", maxCPU); n > 0 {
		requests = append(requests, request{r.chosen["cpus-per-task"].line, "--cpus-per-task", n * tasks})
	}
	if n := r.number("cpus-per-gpu", maxCPU); n > 0 {
		line := r.chosen["cpus-per-gpu"].line
		if r.script.GPUsPerNode == 0 {
			r.refuse(line, "--cpus-per-gpu", "counts CPUs by GPUs, and the script requests none; use --cpus-per-task")
		} else {
			requests = append(requests, request{line, "--cpus-per-gpu", n * r.script.GPUsPerNode})
		}
	}
	return r.agreed(requests, "CPUs", maxCPU)
}

// memory returns the memory of each node in units of 2^30 bytes, rounded up.
func (r *reader) memory(tasks int) int {
	units := []struct {
		name  string
		times int
	}{{"mem", 1}, {"mem-per-cpu", max(r.script.CPU, tasks)}, {"mem-per-gpu", r.script.GPUsPerNode}}
	var requests []request
	for _, unit := range units {
		set, ok := r.chosen[unit.name]
		if !ok {
			continue
		}
		size, err := kibibytes(set.value)
		switch {
		case err != nil:
			r.refuse(set.line, "--"+unit.name, "%q %s", set.value, err)
		case unit.times == 0:
			r.refuse(set.line, "--"+unit.name, "counts memory by GPUs, and the script requests none; use --mem")
		case size == 0:
			r.warn(set.line, "--%s=0 requests no memory here; the default of the pool applies", unit.name)
		default:
			gb := (size*int64(unit.times) + 1<<20 - 1) >> 20
			requests = append(requests, request{set.line, "--" + unit.name, int(gb)})
		}
	}
	return r.agreed(requests, "GB of memory", maxMemoryGB)
}

// output returns the pattern of the file of the output. The log of a job has its output and its errors in their order, so that
// a second file for errors is refused.
func (r *reader) output() string {
	out, failures := r.chosen["output"], r.chosen["error"]
	if problem := outputProblem(out.value); problem != "" {
		r.refuse(out.line, "--output", "%s", problem)
	}
	if failures.value != "" && failures.value != out.value {
		r.refuse(failures.line, "--error", "has no meaning here, because the log has output and errors in one; remove the line, and use --output")
	}
	return out.value
}

// retries reads whether a failed attempt is repeated.
func (r *reader) retries() {
	again, wanted := r.chosen["requeue"]
	never, refused := r.chosen["no-requeue"]
	r.script.NoRetry = refused && (!wanted || never.line > again.line)
}

// environment refuses options that send messages or variables.
func (r *reader) environment() {
	if set, ok := r.chosen["mail-type"]; ok && !strings.EqualFold(set.value, "none") {
		r.refuse(set.line, "--mail-type", "has no meaning here; remove the line, and wait with signalbox jobs wait")
	}
	set, ok := r.chosen["export"]
	switch {
	case !ok || strings.EqualFold(set.value, "none") || strings.EqualFold(set.value, "nil"):
	case strings.EqualFold(set.value, "all"):
		r.warn(set.line, "--export=ALL has no effect; variables of your shell are not sent, so give those that the job needs with --env-file")
	default:
		r.refuse(set.line, "--export", "has no meaning here; give the variables with --env-file")
	}
}
