package host

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// systemPath is the part of PATH after the environment's own programs.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// attemptEnv returns all environment variables of an attempt. None of them comes from the agent's own
// environment.
func (w *work) attemptEnv(spec executor.AttemptSpec, env pyenv.Environment) ([]string, error) {
	v := w.baseEnv(env)
	if w.usesSDK() {
		sdk, err := w.sdkDir()
		if err != nil {
			return nil, err
		}
		v["PYTHONPATH"] = sdk
	}
	for name, value := range map[string]string{
		"ENABLED": "1", "ENDPOINT": w.endpoint(), "ENDPOINT_FILE": w.endpointFile(), "RUN_ID": spec.RunID, "TOKEN": w.assignment.Token,
		"ID": spec.JobID, "ATTEMPT": strconv.Itoa(spec.Attempt), "ROLE": "trainer", "NODE_RANK": "0", "NNODES": "1",
		"GPUS_PER_NODE": strconv.Itoa(spec.Limits.GPUs), "WORKDIR": w.path("work"), "SPOOL_DIR": w.path("spool"),
		"HPARAMS_FILE": w.hparamsFile(), "BINDINGS_FILE": w.bindingsFile(), "SEED": strconv.FormatInt(spec.Seed, 10),
	} {
		v["SERVICE_JOB_"+name] = value
	}
	if spec.Resume != nil {
		v["SERVICE_JOB_RESUME_FROM"] = w.resumeFrom(spec.Resume)
	}
	if spec.Limits.CPUs > 0 {
		v["OMP_NUM_THREADS"] = strconv.Itoa(spec.Limits.CPUs)
	}
	for name, value := range spec.Env {
		if err := allowed(name, value); err != nil {
			return nil, ended(executor.ReasonStart, err)
		}
		v[name] = value
	}
	gpus, err := w.takeGPUs(spec.Limits.GPUs)
	if err != nil {
		return nil, err
	}
	v["CUDA_VISIBLE_DEVICES"] = gpus
	return flat(v), nil
}

// gang reports whether name is a variable that describes a distributed job to one of its processes: the rank of
// the process, the size of the job and the address of the main process.
func gang(name string) bool {
	place := []string{"ROLE", "NODE_RANK", "NNODES", "GPUS_PER_NODE", "MASTER_ADDR", "MASTER_PORT"}
	rest, ok := strings.CutPrefix(name, "SERVICE_JOB_")
	return ok && slices.Contains(place, rest)
}

// baseEnv returns the variables that every process of a work receives.
func (w *work) baseEnv(env pyenv.Environment) map[string]string {
	return map[string]string{
		"PATH": env.Bin() + ":" + systemPath, "VIRTUAL_ENV": env.Dir,
		"HOME": w.path("work"), "TMPDIR": w.path("tmp"), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1",
	}
}

func flat(v map[string]string) []string {
	list := make([]string, 0, len(v))
	for name, value := range v {
		list = append(list, name+"="+value)
	}
	sort.Strings(list)
	return list
}

// allowed rejects variables that the dynamic loader, a shell, the interpreter or the platform reads, unless
// gang accepts them. The control plane rejects them as well, but the node does not rely on that.
func allowed(name, value string) error {
	reserved := []string{"SERVICE_", "LD_", "DYLD_", "NVIDIA_", "PYTHON", "GLIBC_", "MALLOC_", "VIRTUAL_ENV"}
	exact := []string{"PATH", "HOME", "TMPDIR", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}
	upper := strings.ToUpper(name)
	isReserved := slices.ContainsFunc(reserved, func(p string) bool { return strings.HasPrefix(upper, p) })
	if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name) || slices.Contains(exact, upper) || (isReserved && !gang(name)) {
		return fmt.Errorf("environment variable %q is not allowed", name)
	}
	if strings.ContainsAny(value, "\x00\n\r") {
		return fmt.Errorf("environment variable %q must not contain a line break or NUL in its value", name)
	}
	return nil
}

// endpoint returns the current URL of the ingest routes.
func (w *work) endpoint() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ingest()
}

// ingest is like endpoint, for callers that hold w.mu.
func (w *work) ingest() string {
	if w.assignment.Ingest != "" {
		return w.assignment.Ingest
	}
	if w.assignment.Work.Attempt == nil {
		return ""
	}
	return w.assignment.Work.Attempt.IngestEndpoint
}

// reportTo stores a new ingest endpoint, so that the agent and the running attempt send their reports to
// the new address of the control plane.
func (w *work) reportTo(ctx context.Context, attempt *executor.AttemptSpec) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if attempt == nil || attempt.IngestEndpoint == "" || attempt.IngestEndpoint == w.ingest() {
		return
	}
	// Write the file first. If the agent is killed before it saves the assignment, the next list repeats both
	// steps.
	err := writeEndpoint(w.endpointFile(), attempt.IngestEndpoint)
	if err == nil {
		w.assignment.Ingest = attempt.IngestEndpoint
		err = w.saveAssignment()
	}
	if err != nil {
		// The next list contains the address again.
		w.host.deps.Log.WarnContext(ctx, "cannot save the new ingest endpoint", "work", w.key.String(), "error", err.Error())
	}
}

// live is the name of the folder with files that the agent replaces while the work runs. The work sees the folder,
// because it would not see the replacement of a single file.
const live = "live"

// endpointFile returns the path of the file that contains the current URL of the ingest routes. A running
// training reads it, because its environment variable keeps the URL from its start.
func (w *work) endpointFile() string {
	// A training that an earlier version of the agent has started reads this file.
	if before := w.path("endpoint"); exists(before) {
		return before
	}
	return w.path(live, "endpoint")
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (w *work) saveEndpoint() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return writeEndpoint(w.endpointFile(), w.ingest())
}

func writeEndpoint(path, endpoint string) error {
	const readable = 0o644 // by the work's user; no other user can enter the work's folder
	return localfile.Write(path, []byte(endpoint+"\n"), readable)
}
