package rank

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

func randomName() string { return cryptorand.Text() }

// start completes the command of the rank and writes start.json.
func (r *rankProcess) start(ctx context.Context) error {
	name, err := r.hostname()
	if err != nil {
		return err
	}
	if err := localfile.WriteJSON(nodeFile(r.own), node{Name: name}, localfile.PrivateMode); err != nil {
		return err
	}
	if r.template, err = host.ReadTemplate(r.own); err != nil {
		return err
	}
	var remove func()
	r.node, remove, err = r.Process.node(ctx, r.template.Place)
	if remove != nil {
		defer remove()
	}
	if err != nil {
		return err
	}
	gpus := r.gpus()
	s, err := r.node.Complete(ctx, r.template, r.rank, gpus)
	if err != nil {
		return err
	}
	main, err := r.agree(ctx)
	if err != nil {
		return err
	}
	if err := shim.Confirm(ctx, r.own, r.Clock, confirmWithin); err != nil {
		return err
	}
	s.Env = setMain(s.Env, main)
	s.Env = append(s.Env, "CUDA_VISIBLE_DEVICES="+r.node.Visible(gpus, r.variable("CUDA_VISIBLE_DEVICES")), shim.MarkName+"="+s.Mark)
	return s.Save(r.own)
}

// confirmWithin is how long a rank waits for a control plane that does not respond, before it gives the start up.
const confirmWithin = time.Hour

// master is the content of master.json: the address of the main process.
type master struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

// agreeWithin is how long the ranks wait for rank 0, whose node may start later.
const agreeWithin = 10 * time.Minute

// agree returns the address of the main process. Rank 0 chooses it, and the others wait for it, unless the attempt is
// stopped before.
func (r *rankProcess) agree(ctx context.Context) (m master, err error) {
	path := filepath.Join(r.dir, "master.json")
	if r.rank == 0 {
		if m, err = choose(ctx, r.template.Place, r.variable("SLURMD_NODENAME")); err != nil {
			return m, err
		}
		return m, localfile.WriteJSON(path, m, localfile.PrivateMode)
	}
	deadline := r.Clock.Now().Add(agreeWithin)
	for {
		Refresh(r.dir)
		err := localfile.ReadJSON(path, &m)
		if !errors.Is(err, fs.ErrNotExist) {
			return m, err
		}
		if (shim.Control{}).StopRequested(r.own) {
			return m, nil // the shim starts nothing
		}
		if r.Clock.Now().After(deadline) {
			return m, fmt.Errorf("rank 0 did not start within %s; see slurm.log in the folder of the attempt", agreeWithin)
		}
		if err := clock.Sleep(ctx, r.Clock, look); err != nil {
			return m, err
		}
	}
}

// The ports for the main process of an attempt, the same as on hosts. No engine uses them.
const (
	firstPort = 23000
	lastPort  = 25999
	portTries = 50
)

// choose returns the address of the main process on this node.
func choose(ctx context.Context, p host.Place, name string) (m master, err error) {
	m.Host = "127.0.0.1"
	if p.Ranks > 1 {
		m.Host = reachable(ctx, name)
	}
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if slices.Contains(p.ReservedPorts, uint16(port)) {
			continue
		}
		var l net.Listener
		if l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+strconv.Itoa(port)); err == nil {
			m.Port = port
			return m, l.Close()
		}
	}
	return m, fmt.Errorf("find a free port for the main process in %d tries, the last one: %w", portTries, err)
}

// reachable returns a name or an address at which other nodes reach this one: Slurm's name of the node or the name of the
// machine, if it has an address that is not a loopback one, otherwise an address of the machine.
func reachable(ctx context.Context, name string) string {
	own, _ := os.Hostname() // an error leaves it empty
	for _, one := range []string{name, own} {
		if one == "" {
			continue
		}
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", one)
		if err == nil && len(found) > 0 && !found[0].IsLoopback() {
			return one
		}
	}
	addresses, _ := net.InterfaceAddrs() // an error leaves the loopback address
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	return "127.0.0.1"
}

// setMain adds the address of the main process to the environment, also under the names that PyTorch and torchrun read,
// unless the user has set those.
func setMain(environ []string, m master) []string {
	port := strconv.Itoa(m.Port)
	environ = append(slices.Clone(environ), "SERVICE_JOB_MASTER_ADDR="+m.Host, "SERVICE_JOB_MASTER_PORT="+port)
	for _, v := range [][2]string{{"MASTER_ADDR", m.Host}, {"PET_MASTER_ADDR", m.Host}, {"MASTER_PORT", port}, {"PET_MASTER_PORT", port}} {
		if !slices.ContainsFunc(environ, func(e string) bool { return strings.HasPrefix(e, v[0]+"=") }) {
			environ = append(environ, v[0]+"="+v[1])
		}
	}
	return environ
}
