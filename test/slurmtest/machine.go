package slurmtest

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/stretchr/testify/require"
)

// machine is a host of the cluster: a daemon and its jobs, with a host name, processes and mounts of their own. When its
// first process ends, the kernel kills all others.
type machine struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when all processes of the machine have ended
}

// first is the script of the first process of a machine. It makes the namespaces look like a host, starts the daemon and
// reaps the processes that have lost their parents. It hands SIGTERM on to the daemon and ends with it. After
// SIGUSR1, which kills the daemon, the machine continues to run.
const first = `
mount --make-rprivate / && mount -t proc proc /proc && mount --bind "$1" /etc/hosts && echo "$2" > /proc/sys/kernel/hostname || exit
shift 2
trap 'kill -TERM "$daemon"' TERM
trap 'crashed=yes; kill -KILL "$daemon"' USR1
"$@" &
daemon=$!
while kill -0 "$daemon" 2> /dev/null; do wait "$daemon"; done
if [ "$crashed" ]; then
  sleep infinity &
  wait $!
fi`

// boot starts a machine that runs the given daemon.
func (c *Cluster) boot(name string, daemon ...string) *machine {
	c.t.Helper()
	m := &machine{name: name, log: c.path(name + ".log"), done: make(chan struct{})}
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(c.t, err)
	defer func() { _ = log.Close() }()
	m.cmd = exec.Command("/bin/sh", append([]string{"-c", first, "sh", c.path("hosts"), name}, daemon...)...)
	m.cmd.Dir, m.cmd.Stdout, m.cmd.Stderr = c.Dir, log, log
	m.cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "SLURM_CONF=" + c.path("slurm.conf")}
	m.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS,
	}
	started := make(chan error)
	go func() {
		// The kernel sends Pdeathsig when the thread that started the process ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := m.cmd.Start()
		started <- err
		if err == nil {
			_ = m.cmd.Wait()
			close(m.done)
		}
	}()
	require.NoError(c.t, <-started, "start %s: a test of Slurm needs the right to create namespaces (CAP_SYS_ADMIN)", name)
	c.t.Cleanup(m.kill)
	return m
}

// kill ends all processes of the machine and waits for their end.
func (m *machine) kill() {
	_ = m.cmd.Process.Kill()
	<-m.done
}

// killDaemon ends only the daemon.
func (m *machine) killDaemon() { _ = m.cmd.Process.Signal(syscall.SIGUSR1) }

// stop ends the daemon, which may store its state, and with it the machine.
func (m *machine) stop(ctx context.Context) {
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.done:
	case <-ctx.Done():
		m.kill()
	}
}

const tailBytes = 4096

// tail returns the end of the machine's log.
func (m *machine) tail() string {
	raw, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	if len(raw) > tailBytes {
		raw = raw[len(raw)-tailBytes:]
	}
	return string(bytes.TrimSpace(raw))
}

// hosts returns the machines' /etc/hosts: that of the system, and the names of all machines. As in other clusters, the
// names stand for addresses at which the machines reach each other, and not for the loopback interface.
func (c *Cluster) hosts() string {
	c.t.Helper()
	raw, err := os.ReadFile(filepath.Join("/etc", "hosts"))
	require.NoError(c.t, err)
	names := []string{controllerName}
	for i := range c.config.Nodes {
		names = append(names, nodeName(i))
	}
	return string(raw) + "\n" + c.address() + " " + strings.Join(names, " ") + "\n"
}

// address returns an address of this machine, which is a loopback address only if there is no other one.
func (c *Cluster) address() string {
	c.t.Helper()
	all, err := net.InterfaceAddrs()
	require.NoError(c.t, err)
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	return "127.0.0.1"
}
