package host

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/environment"
	"github.com/signalbox-dev/signalbox/agent/host/files"
)

// systemPath is where programs are found beside those of the environment.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// attemptEnv is the whole environment of an attempt: nothing of the agent's own
// reaches it.
func (w *work) attemptEnv(spec executor.AttemptSpec, env environment.Environment) ([]string, error) {
	v := w.baseEnv(env)
	if spec.Environment.SDK && w.host.deps.SDK != nil {
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

// gang reports that a name is one of those by which the control plane tells a rank its place.
func gang(name string) bool {
	place := []string{"ROLE", "NODE_RANK", "NNODES", "GPUS_PER_NODE", "MASTER_ADDR", "MASTER_PORT"}
	rest, ok := strings.CutPrefix(name, "SERVICE_JOB_")
	return ok && slices.Contains(place, rest)
}

// baseEnv is what every process of a work gets.
func (w *work) baseEnv(env environment.Environment) map[string]string {
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

// allowed refuses what the loader, the interpreter or the platform reads. The
// control plane refuses it first; the node does not depend on that.
func allowed(name, value string) error {
	reserved := []string{"SERVICE_", "LD_", "DYLD_", "NVIDIA_", "PYTHON", "GLIBC_", "MALLOC_", "VIRTUAL_ENV"}
	exact := []string{"PATH", "HOME", "TMPDIR", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "CUDA_VISIBLE_DEVICES"}
	upper := strings.ToUpper(name)
	isReserved := slices.ContainsFunc(reserved, func(p string) bool { return strings.HasPrefix(upper, p) })
	if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name) || slices.Contains(exact, upper) || (isReserved && !gang(name)) {
		return fmt.Errorf("environment variable %q is not allowed", name)
	}
	if strings.ContainsAny(value, "\x00\n\r") {
		return fmt.Errorf("environment variable %q has a line break in its value", name)
	}
	return nil
}

// endpoint is where the ingest routes are now.
func (w *work) endpoint() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ingest()
}

// ingest is endpoint for who holds the lock.
func (w *work) ingest() string {
	if w.assignment.Ingest != "" {
		return w.assignment.Ingest
	}
	if w.assignment.Work.Attempt == nil {
		return ""
	}
	return w.assignment.Work.Attempt.IngestEndpoint
}

// reportTo takes the address that the control plane has now: one that came back elsewhere is
// reported to there, by the agent and by what runs.
func (w *work) reportTo(ctx context.Context, told *executor.AttemptSpec) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if told == nil || told.IngestEndpoint == "" || told.IngestEndpoint == w.ingest() {
		return
	}
	// The file first: who is cut off behind it is told again, and writes it again.
	err := writeEndpoint(w.endpointFile(), told.IngestEndpoint)
	if err == nil {
		w.assignment.Ingest = told.IngestEndpoint
		err = w.saveAssignment()
	}
	if err != nil {
		// It is told again with the next list, or to the next agent.
		w.host.deps.Log.WarnContext(ctx, "ingest address not saved", "work", w.key.String(), "error", err.Error())
	}
}

// endpointFile tells the running training where the ingest routes are now. Its environment, which
// cannot be changed any more, says where they were when it began.
func (w *work) endpointFile() string { return w.path("endpoint") }

func (w *work) tellEndpoint() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return writeEndpoint(w.endpointFile(), w.ingest())
}

func writeEndpoint(path, endpoint string) error {
	return files.Write(path, []byte(endpoint+"\n"), files.Private)
}
