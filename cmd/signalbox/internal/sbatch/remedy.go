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
	case "mpirun", "mpiexec", "mpiexec.hydra", "orterun":
		return "remove it, because the script runs on every node, and start the processes of a node with torchrun"
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

// fileRemedy returns what is wrong with a file of commands that belongs to the user's machine, and the remedy, or "" for other files.
func fileRemedy(file string) string {
	const problem, remedy = " of your machine, which a node does not have; ", "choose the environment with --python or --requirements"
	switch base := path.Base(file); {
	case base == "activate" || base == "conda.sh":
		return "is an environment" + problem + remedy
	case strings.HasPrefix(base, ".bash") || base == ".profile" || base == ".zshrc" || base == ".zprofile" || file == "/etc/profile":
		return "has the settings" + problem + "remove the line, set variables with --env-file, and " + remedy
	}
	return ""
}

// variableRemedy returns what to use in place of a variable of Slurm. The text is that before it on its line.
func variableRemedy(name, before string) string {
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
		if before == "cd" {
			return "remove the line; the script runs in the submitted folder"
		}
		return "write a path without it; the script runs in the submitted folder"
	case "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS":
		return "start the processes with torchrun, which sets RANK, LOCAL_RANK and WORLD_SIZE"
	case "SLURM_TMPDIR":
		return "give it a default, as in ${SLURM_TMPDIR:-/tmp}"
	}
	for _, part := range []string{"_ID", "_NUM", "NTASKS", "TASKS_PER", "CPUS", "GPUS_PER", "COUNT", "MEM_PER", "ARRAY_TASK", "PROCID", "NNODES"} {
		if strings.Contains(name, part) {
			return "give it a default, as in ${" + name + ":-1}"
		}
	}
	return "give it a default, as in ${" + name + ":-text}"
}

// runner is a program that runs the command after its own words.
type runner struct {
	// values are the letters of the options whose value can be the next word, and ends those of the options after which nothing is run.
	values, ends string
	// operands is the number of words before the command.
	operands int
}

// runnerOf returns a program that runs another one, or nil.
func runnerOf(name string) *runner {
	switch name {
	case "nohup", "setsid":
		return &runner{}
	case "command":
		return &runner{ends: "vV"}
	case "exec":
		return &runner{values: "a"}
	case "env":
		return &runner{values: "uC"}
	case "nice":
		return &runner{values: "n"}
	case "ionice":
		return &runner{values: "cn"}
	case "time":
		return &runner{values: "fo"}
	case "stdbuf":
		return &runner{values: "ioe"}
	case "numactl":
		return &runner{values: "NmCpil"}
	case "sudo":
		return &runner{values: "ugCDRTpht", ends: "lvkK"}
	case "xargs":
		return &runner{values: "nILPdEsa"}
	case "timeout":
		return &runner{values: "ks", operands: 1}
	case "taskset", "function":
		return &runner{operands: 1}
	case "flock":
		return &runner{values: "wE", operands: 1}
	}
	return nil
}

// valuesAfter returns how many of the next words belong to an option.
func (r *runner) valuesAfter(option string) int {
	if i := strings.IndexAny(option, r.values); !strings.HasPrefix(option, "--") && i > 0 && i == len(option)-1 {
		return 1
	}
	return 0
}

// endsWith reports whether nothing is run after an option.
func (r *runner) endsWith(option string) bool {
	return !strings.HasPrefix(option, "--") && strings.ContainsAny(option, r.ends)
}

// reserved reports whether a command follows a word of the shell.
func reserved(word string) bool {
	switch word {
	case "if", "then", "elif", "else", "while", "until", "do", "!", "{", "}", "fi", "done", "eval", "builtin", "export":
		return true
	}
	return false
}

// assignment reports whether a word sets a variable. A command can follow it.
func assignment(word string) bool {
	name, _, assigned := strings.Cut(word, "=")
	return assigned && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+[]") == ""
}
