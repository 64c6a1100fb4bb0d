package slurm

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/slurm/rank"
)

// maxNice is the nice value of an attempt with priority 0.
const maxNice = 100

// arguments returns the command line of sbatch for an attempt. Each part of the gang is a component of the job.
func (r *Runner) arguments(dir string, o order) []string {
	common := []string{
		"--job-name=signalbox-" + o.JobID + "-" + strconv.Itoa(o.Attempt), "--comment=" + r.comment(o.Key), "--no-requeue", "--export=NONE", "--propagate=NONE",
		"--chdir=" + dir, "--input=/dev/null", "--output=" + filepath.Join(dir, "slurm.log"), "--open-mode=append",
		"--nice=" + strconv.Itoa(maxNice-min(max(o.Batch.Priority, 0), maxNice)), "--signal=" + signalBefore(o),
	}
	if o.Batch.TimeLimit > 0 {
		common = append(common, "--time="+strconv.Itoa(int(math.Ceil(o.Batch.TimeLimit.Minutes()))))
	}
	args := []string{"--parsable"}
	for i, p := range o.Batch.Parts {
		if i > 0 {
			args = append(args, ":")
		}
		args = append(append(args, common...), partArguments(p)...)
	}
	return append(args, scriptFile(dir))
}

// signalBefore returns the signal that Slurm sends before it ends the job at its time limit. A single rank is the batch
// script itself.
func signalBefore(o order) string {
	const longest = 65535 * time.Second // Slurm's limit
	word := fmt.Sprintf("TERM@%d", int(max(min(o.Grace, longest), time.Second).Seconds()))
	if o.Batch.Ranks() == 1 {
		return "B:" + word
	}
	return word
}

func partArguments(p executor.BatchPart) []string {
	args := []string{"--partition=" + p.Slurm.Partition, "--nodes=" + strconv.Itoa(p.Nodes), "--ntasks-per-node=1"}
	for _, o := range []struct{ name, value string }{{"account", p.Slurm.Account}, {"qos", p.Slurm.QOS}} {
		if o.value != "" {
			args = append(args, "--"+o.name+"="+o.value)
		}
	}
	if p.GPUsPerNode > 0 {
		args = append(args, "--gres=gpu:"+strconv.Itoa(p.GPUsPerNode))
	}
	if p.CPUs > 0 {
		args = append(args, "--cpus-per-task="+strconv.Itoa(p.CPUs))
	}
	if p.MemoryBytes > 0 {
		const mebi = 1 << 20
		args = append(args, "--mem="+strconv.FormatInt((p.MemoryBytes+mebi-1)/mebi, 10)+"M")
	}
	return args
}

// script returns the batch script of an attempt. A single rank replaces the shell, so that it gets Slurm's signals. More
// ranks are started by srun, in a step for each part. The shell outlives a signal, because the ranks get it, too.
func (r *Runner) script(dir string, o order) string {
	var s strings.Builder
	s.WriteString("#!/bin/sh\nexport " + rank.JobVariable + "=\"$SLURM_JOB_ID\"\nunset SLURM_EXPORT_ENV\n" + searchPath(r.cfg.Environ))
	for _, v := range connection(r.cfg.Environ) {
		s.WriteString("export " + quote(v) + "\n")
	}
	command := quote(r.cfg.Program) + " rank " + quote(dir)
	if o.Batch.Ranks() == 1 {
		return s.String() + "exec " + command + "\n"
	}
	s.WriteString("trap : TERM\nall=\n")
	offset := 0
	for i, p := range o.Batch.Parts {
		s.WriteString(rank.OffsetVariable + "=" + strconv.Itoa(offset) + " srun --export=ALL --mpi=none --kill-on-bad-exit=0 --wait=0 --input=none")
		if len(o.Batch.Parts) > 1 {
			s.WriteString(" --het-group=" + strconv.Itoa(i))
		}
		s.WriteString(" --nodes=" + strconv.Itoa(p.Nodes) + " --ntasks-per-node=1")
		if p.CPUs > 0 {
			s.WriteString(" --cpus-per-task=" + strconv.Itoa(p.CPUs))
		}
		s.WriteString(" " + command + " &\nall=\"$all $!\"\n")
		offset += p.Nodes
	}
	s.WriteString("failed=0\nfor one in $all; do\n\twhile :; do\n\t\twait \"$one\"\n\t\tstatus=$?\n\t\tkill -0 \"$one\" 2>/dev/null || break\n\tdone\n" +
		"\t[ \"$status\" = 0 ] || failed=$status\ndone\nexit \"$failed\"\n")
	return s.String()
}

// searchPath returns the command that adds the folders of the agent's PATH, where the programs of Slurm and pasta are, to
// that of the node.
func searchPath(environ []string) string {
	for _, v := range slices.Backward(environ) { // the last value counts
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			return "export PATH=\"$PATH\":" + quote(path) + "\n"
		}
	}
	return ""
}

// connection returns the settings for proxies and certificates, with which the shims reach the control plane, and the
// setting of Slurm's configuration.
func connection(environ []string) (found []string) {
	names := []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "SLURM_CONF"}
	for _, v := range environ {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(names, strings.ToUpper(name)) {
			found = append(found, v)
		}
	}
	return found
}

// quote returns the text as one word of a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// parseID reads the id that sbatch --parsable has written: ID or ID;CLUSTER.
func parseID(text string) (string, error) {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	id, _, _ := strings.Cut(line, ";")
	if id == "" || strings.Trim(id, "0123456789") != "" {
		return "", fmt.Errorf("sbatch has written no job id, but %q", executor.Tail(text, commandErrors))
	}
	return id, nil
}

// passing reports whether the failure of sbatch may pass, such as an unreachable controller or a full queue. Otherwise
// Slurm refuses the job as it is.
func passing(e *CommandError) bool {
	text := strings.ToLower(e.Output)
	return slices.ContainsFunc([]string{
		"unable to contact", "connection refused", "timed out", "temporarily", "zero bytes", "communication", "connection failure",
		"unexpected message", "resource temporarily unavailable", "maximum job count", "agent queue", "slurm_receive", "too many", "backup",
		"submit limit", "submitlimit", "maxsubmit", "not available (inactive", "not available now", "authentication", "munge", "disabled", "try again", "i/o error",
	}, func(part string) bool { return strings.Contains(text, part) })
}

// refusal returns what to report for a job that Slurm refuses.
func refusal(e *CommandError) string {
	return "Slurm refuses the attempt: " + cmp.Or(strings.TrimSpace(strings.ReplaceAll(e.Output, "sbatch: error: ", "")), e.Error())
}
