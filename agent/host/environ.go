package host

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// systemPath is the part of PATH after the environment's own programs.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// attemptEnv returns all environment variables of a rank of an attempt. None of them comes from the agent's own
// environment. The port is that of the main process; 0 if the control plane has chosen it.
func (w *work) attemptEnv(spec executor.AttemptSpec, env pyenv.Environment, port, rank int) ([]string, error) {
	v := w.baseEnv(env, rank)
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
		"GPUS_PER_NODE": strconv.Itoa(spec.Limits.GPUs), "WORKDIR": w.folder(rank, "work"), "SPOOL_DIR": w.folder(rank, spoolName),
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
	if w.batched() {
		w.setPlace(v, rank)
		return flat(v), nil
	}
	setMasterPort(v, port)
	gpus, err := w.takeGPUs(spec.Limits.GPUs)
	if err != nil {
		return nil, err
	}
	v["CUDA_VISIBLE_DEVICES"] = gpus
	return flat(v), nil
}

// setMasterPort sets the port of the main process, unless it is 0, and the variables in which PyTorch and torchrun read it,
// unless the user has set them. Otherwise every torchrun of the node would use the same port.
func setMasterPort(v map[string]string, port int) {
	if port != 0 {
		v["SERVICE_JOB_MASTER_PORT"] = strconv.Itoa(port)
	}
	for _, name := range []string{"MASTER_PORT", "PET_MASTER_PORT"} {
		if _, set := v[name]; !set && v["SERVICE_JOB_MASTER_PORT"] != "" {
			v[name] = v["SERVICE_JOB_MASTER_PORT"]
		}
	}
}

// gang reports whether the variable with the given name describes a distributed job to one of its processes: the rank
// of the process, the size of the job or the address of the main process.
func gang(name string) bool {
	place := []string{"ROLE", "NODE_RANK", "NNODES", "GPUS_PER_NODE", "MASTER_ADDR", "MASTER_PORT"}
	rest, ok := strings.CutPrefix(name, "SERVICE_JOB_")
	return ok && slices.Contains(place, rest)
}

// baseEnv returns the variables that every process of a work receives.
func (w *work) baseEnv(env pyenv.Environment, rank int) map[string]string {
	v := map[string]string{
		"PATH": env.Bin() + ":" + systemPath,
		"HOME": w.folder(rank, "work"), "TMPDIR": w.folder(rank, "tmp"), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1",
	}
	if env.Virtual() {
		v["VIRTUAL_ENV"] = env.Dir
	}
	return v
}

func flat(v map[string]string) []string {
	list := make([]string, 0, len(v))
	for name, value := range v {
		list = append(list, name+"="+value)
	}
	sort.Strings(list)
	return list
}

// allowed rejects variables that the dynamic loader, a shell, the interpreter or the platform reads, unless gang
// returns true for them. The control plane rejects them as well, but the node does not rely on that.
func allowed(name, value string) error {
	reserved := []string{"SERVICE_", "LD_", "DYLD_", "NVIDIA_", "PYTHON", "GLIBC_", "MALLOC_", "VIRTUAL_ENV"}
	exact := []string{"PATH", "HOME", "TMPDIR", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}
	upper := strings.ToUpper(name)
	isReserved := slices.ContainsFunc(reserved, func(p string) bool { return strings.HasPrefix(upper, p) })
	if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name) || slices.Contains(exact, upper) || (isReserved && !gang(name)) {
		return fmt.Errorf("environment variable %q is not allowed", name)
	}
	if strings.ContainsRune(value, 0) {
		return fmt.Errorf("environment variable %q must not contain NUL in its value", name)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// lookupTimeout limits the time to look up the host names in the network restrictions of a work.
const lookupTimeout = 5 * time.Second

// Network returns how the network of works is restricted. If it is not restricted, why states the reason. Network waits
// until Run has tried to restrict a network.
func (h *Host) Network() (kind boundary.NetworkKind, why error) {
	<-h.tried
	return h.net, h.notRestricted
}

// trialNetwork returns the network for a trial. It returns an error if the network of works cannot be restricted.
func (h *Host) trialNetwork(kind boundary.Kind) (n boundary.Network, err error) {
	const closed = true // a closed network uses every kind of rule that the other networks use
	if kind == boundary.OwnUser {
		return boundary.Network{Kind: boundary.Filtered, Closed: closed}, nil
	}
	if h.pasta, err = findProgram(h.cfg.Environ, "pasta"); err != nil {
		return n, fmt.Errorf("%w (Debian's package passt), or run the agent as root", err)
	}
	return boundary.Network{Kind: boundary.OwnNetwork, Closed: closed, Program: h.pasta}, nil
}

// network returns what a work may reach, including the given URLs. It returns a zero value if networks are not
// restricted.
func (h *Host) network(ctx context.Context, urls ...string) (boundary.Network, error) {
	if kind, _ := h.Network(); kind == boundary.Open {
		return boundary.Network{}, nil
	}
	return h.within(ctx, boundary.Network{Kind: h.net, Program: h.pasta}, urls...)
}

// within returns the network n with the addresses that a work may reach, including those of the URLs, and the addresses
// that the work must avoid. If an address to avoid cannot be looked up, the network in the result is incomplete.
func (h *Host) within(ctx context.Context, n boundary.Network, urls ...string) (_ boundary.Network, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	if n.Resolvers, err = boundary.Resolvers("/etc/resolv.conf"); err != nil {
		return n, err
	}
	names := h.deps.Names
	// Ignore names that cannot be looked up, because the work could not look them up either.
	n.Reach, _, _ = boundary.Reachable(ctx, names, append(urls, h.cfg.WorkReach...))
	for _, text := range h.cfg.WorkAvoid {
		found, err := boundary.Destinations(ctx, names, text)
		if err != nil {
			return n, fmt.Errorf("resolve the addresses that works must not reach: %w; check SERVICE_AGENT_WORK_AVOID", err)
		}
		n.Avoid = append(n.Avoid, found...)
	}
	if h.cfg.ControlPlane != nil {
		for _, address := range h.cfg.ControlPlane() {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return n, fmt.Errorf("parse the address of the control plane %q: %w", address, err)
			}
			found, err := boundary.Destinations(ctx, names, strings.Trim(host, "[]"))
			if err != nil {
				return n, err
			}
			n.Avoid = append(n.Avoid, found...)
		}
	}
	if n.Kind == boundary.OwnNetwork {
		// Otherwise the work would reach, through pasta, the services that listen on all addresses of the node.
		own, err := boundary.NodeAddresses()
		if err != nil {
			return n, err
		}
		n.Avoid = append(n.Avoid, own...)
	}
	return n, nil
}

// errOpenNetwork returns the error for a work that requests no network on a node that cannot close networks.
func errOpenNetwork(why error) error {
	return ended(executor.ReasonStart, fmt.Errorf("the job requests no network, but this node cannot close the network of works (%w); "+
		"see docs/reference/security.md, or submit the job without spec.network", why))
}

// closedNetwork reports whether the work requests no network.
func (w *work) closedNetwork() bool {
	a := w.assignment.Work.Attempt
	return a != nil && a.NoNetwork
}

// onSeveralNodes reports whether the work is one of the ranks of an attempt on several nodes.
func (w *work) onSeveralNodes() bool {
	a := w.assignment.Work.Attempt
	return a != nil && a.Env["SERVICE_JOB_NNODES"] != "" && a.Env["SERVICE_JOB_NNODES"] != "1"
}

// awaitNetwork returns what the processes of the work may reach. Names that cannot be looked up are tried again like
// downloads, because the control plane or its name server may be unreachable for a while.
func (w *work) awaitNetwork(ctx context.Context) (n boundary.Network, err error) {
	err = w.retry(ctx, func(ctx context.Context) (err error) {
		n, err = w.network(ctx, w.lastNetwork)
		return err
	})
	return n, err
}

// network returns what the processes of the work may reach. If names cannot be looked up, it returns what an earlier
// process of the work was permitted to reach, the parameter last.
func (w *work) network(ctx context.Context, last boundary.Network) (boundary.Network, error) {
	kind, why := w.host.Network()
	if !w.closedNetwork() {
		if kind == boundary.OwnNetwork && w.onSeveralNodes() {
			// The ranks of an attempt connect to each other at any port, which pasta does not forward.
			w.host.deps.Log.WarnContext(ctx, "the network of an attempt on several nodes is not restricted, because the agent does not run as root",
				"work", w.key.String())
			return boundary.Network{}, nil
		}
		n, err := w.host.network(ctx, w.endpoint())
		if err == nil || ctx.Err() != nil || !last.On() || last.Kind != kind {
			return n, err
		}
		w.host.deps.Log.WarnContext(ctx, "cannot look up what the work may reach; it may reach the same addresses as before",
			"work", w.key.String(), "error", err.Error())
		last.Program, last.Serve = w.host.pasta, 0
		last.Reach = slices.Compact(slices.SortedFunc(slices.Values(slices.Concat(n.Reach, last.Reach)), netip.AddrPort.Compare))
		return last, nil
	}
	if kind == boundary.Open {
		return boundary.Network{}, errOpenNetwork(why)
	}
	w.reaching.Lock()
	defer w.reaching.Unlock()
	// A name that cannot be looked up now is looked up again while the work runs, see followNames.
	n, hosts, _ := w.closedTo(ctx, boundary.Network{Kind: kind, Program: w.host.pasta, Closed: true}, w.endpoint())
	return n, w.saveHosts(n, hosts)
}

// closedTo returns the network n with the addresses that a closed work may reach: the endpoint and the addresses in
// ClosedReach. The result hosts contains their names in the format of /etc/hosts.
func (w *work) closedTo(ctx context.Context, n boundary.Network, endpoint string) (_ boundary.Network, hosts string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	n.Hosts = w.path(live, "hosts")
	n.Reach, hosts, err = boundary.Reachable(ctx, w.host.deps.Names, append([]string{endpoint}, w.host.cfg.ClosedReach...))
	return n, hosts, err
}

// saveHosts writes the file with the names that the work can look up: the names of its own ports, and the lines in the
// parameter known.
func (w *work) saveHosts(n boundary.Network, known string) error {
	own, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find the host name: %w", err)
	}
	const readable = 0o644 // by the work's user, see writeEndpoint
	// The known names come first, because the endpoint may have the name of this node.
	text := known + boundary.OwnHosts(own, w.assignment.Work.Attempt.Env["SERVICE_JOB_MASTER_ADDR"])
	return localfile.Write(n.Hosts, []byte(text), readable)
}

// urlsIn returns the URLs in the values of the variables, such as the URL of a package index or a proxy.
func urlsIn(environ []string) []string {
	var urls []string
	for _, variable := range environ {
		_, value, _ := strings.Cut(variable, "=")
		for word := range strings.FieldsSeq(value) {
			if boundary.HostOf(word) != "" {
				urls = append(urls, word)
			}
		}
	}
	return urls
}

// findProgram returns the path of a program in the agent's PATH.
func findProgram(environ []string, name string) (string, error) {
	for _, variable := range slices.Backward(environ) {
		path, ok := strings.CutPrefix(variable, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(found) {
				return found, nil
			}
		}
		break
	}
	return "", fmt.Errorf("the program %s is not in PATH; install it", name)
}
