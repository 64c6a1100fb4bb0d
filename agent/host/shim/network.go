package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

func networkFile(dir string) string { return filepath.Join(dir, "network.json") }

// Reach replaces what a command with a restricted network may reach. It returns nil if the command has ended or its
// network is not restricted.
func (c Control) Reach(dir string, n boundary.Network) error {
	s, err := ReadStart(dir)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !s.Isolation.Network.On()) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := localfile.WriteJSON(networkFile(dir), n, localfile.PrivateMode); err != nil {
		return err
	}
	r, err := c.Running(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // The shim reads the file before it starts the command.
	}
	if err != nil {
		return err
	}
	r.Shim.Signal(syscall.SIGHUP)
	return nil
}

// network returns what the command may reach now. A command without a network never gets one.
func (o *owner) network() (boundary.Network, error) {
	var changed boundary.Network
	err := localfile.ReadJSON(networkFile(o.dir), &changed)
	if errors.Is(err, fs.ErrNotExist) {
		return o.start.Isolation.Network, nil
	}
	changed.Closed = changed.Closed || o.start.Isolation.Network.Closed
	return changed, err
}

// openFilter creates the filter for the packets that the command sends. It must be called before the command runs. The
// kernel removes the filter when the shim ends, and the command ends with the shim.
func (o *owner) openFilter() error {
	isolation := o.start.Isolation
	if isolation.Kind != boundary.OwnUser || isolation.Network.Kind != boundary.Filtered {
		return nil
	}
	var err error
	if isolation.Network, err = o.network(); err != nil {
		return err
	}
	o.filter, err = isolation.NewFilter()
	return err
}

// changeNetwork applies the network file. If that fails, the command keeps its previous network or has none.
func (o *owner) changeNetwork() {
	n, err := o.network()
	switch {
	case err != nil:
	case o.filter != nil:
		err = o.filter.Change(n)
	case o.pasta != nil:
		err = o.changeInside(n)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "shim:", err) // the shim's log
	}
}

// insideTimeout limits the time that the first process inside the boundary has to read a change of its filter.
const insideTimeout = 5 * time.Second

// changeEarly applies a network file that was written before the command's process existed.
func (o *owner) changeEarly() error {
	if o.pasta == nil || !exists(networkFile(o.dir)) {
		return nil
	}
	n, err := o.network()
	if err != nil {
		return err
	}
	return o.changeInside(n)
}

// changeInside sends the network to the process that has the filter. It restarts pasta if pasta must forward other
// ports.
func (o *owner) changeInside(n boundary.Network) error {
	if err := o.inside.SetWriteDeadline(o.clock.Now().Add(insideTimeout)); err != nil {
		return fmt.Errorf("limit the wait for the filter of the work: %w", err)
	}
	if err := json.NewEncoder(o.inside).Encode(n); err != nil {
		return fmt.Errorf("send the network to the filter of the work: %w", err)
	}
	if slices.Equal(n.Pasta(0, ""), o.pasta.network.Pasta(0, "")) {
		return nil // Do not restart pasta, so that connections of the command continue.
	}
	return o.reconnect()
}

func (o *owner) closeFilter() {
	if o.filter != nil {
		_ = o.filter.Close() // If this fails, the kernel removes the filter when the shim ends.
	}
	if o.inside != nil {
		_ = o.inside.Close()
	}
}

// pasta is a process that connects the command's network to the network of the node.
type pasta struct {
	process *os.Process
	// network is what the process connects.
	network boundary.Network
	// gone is closed when the process has ended.
	gone <-chan struct{}
}

// reconnection is the state of the attempts to replace a process of pasta that has ended by itself.
type reconnection struct {
	timer clock.Timer
	// pending is true while the timer runs.
	pending  bool
	failures int
	// tried is the time of the last attempt to connect.
	tried time.Time
}

// The pauses before pasta is started again. If an attempt was longer ago than connectedLong, the next pause is the
// shortest one.
const (
	reconnectFirst = 200 * time.Millisecond
	reconnectMost  = 30 * time.Second
	connectedLong  = 2 * reconnectMost
)

// disconnected returns a channel that is closed when pasta has ended. It returns nil while a new attempt to connect is
// pending, and if the command has no network of its own.
func (o *owner) disconnected() <-chan struct{} {
	if o.pasta == nil || o.again.pending {
		return nil
	}
	return o.pasta.gone
}

// reconnectLater starts the pause before the next attempt to connect. Each failure makes it longer.
func (o *owner) reconnectLater() {
	if o.clock.Now().Sub(o.again.tried) > connectedLong {
		o.again.failures = 0
	}
	pause := clock.Backoff{Base: reconnectFirst, Max: reconnectMost, Jitter: o.jitter}.Wait(o.again.failures)
	o.again.failures++
	o.again.pending = true
	o.again.timer.Reset(pause)
}

// reconnectNow connects the network again after pasta has ended by itself. If that fails, follow tries it again.
func (o *owner) reconnectNow() {
	o.again.pending = false
	select {
	case <-o.pasta.gone:
	default:
		return // A change of the network has connected it.
	}
	if !o.running.First.Alive() {
		return // The command has no network any more.
	}
	o.pasta.kill() // Release its pidfd.
	if err := o.connect(o.first); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "shim:", err) // the shim's log
	}
}

// reconnect replaces the process of pasta with one that forwards other ports. Connections through the old process end.
func (o *owner) reconnect() error {
	o.pasta.kill()
	return o.connect(o.first)
}

// kill ends the process and waits until it has ended. os.Process refers to it by a pidfd, so that kill signals no other
// process that has the same pid now.
func (p *pasta) kill() {
	if err := p.process.Kill(); err == nil || errors.Is(err, os.ErrProcessDone) {
		<-p.gone
	}
	_ = p.process.Release() // an error means that it was released before
}

// connectTimeout limits the time that pasta has to connect the network of a work.
const connectTimeout = 20 * time.Second

// connect connects the network namespace of the process to the network of the node, if the process has its own
// namespace. pasta runs as a child of the shim until it is killed with the other descendants, see sweep.
func (o *owner) connect(pid int) error {
	o.again.tried = o.clock.Now()
	n, err := o.network()
	if err != nil || n.Kind != boundary.OwnNetwork {
		return err
	}
	ready := filepath.Join(o.dir, "connected")
	if err := unix.Mkfifo(ready, uint32(localfile.PrivateMode)); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create the pipe to pasta: %w", err)
	}
	// Open the pipe for writing too. Otherwise the shim would wait until pasta opens the pipe.
	pipe, err := os.OpenFile(ready, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open the pipe to pasta: %w", err)
	}
	defer func() { _ = pipe.Close() }()
	if err := pipe.SetReadDeadline(o.clock.Now().Add(connectTimeout)); err != nil {
		return fmt.Errorf("limit the wait for pasta: %w", err)
	}
	p, err := o.startPasta(n, n.Pasta(pid, ready), pipe)
	if err != nil {
		return err
	}
	if _, err := pipe.Read(make([]byte, 1)); err != nil {
		p.kill()
		return fmt.Errorf("pasta did not connect the network of the work (%w); see shim.log in the folder of the work", err)
	}
	o.pasta, o.first = p, pid
	return nil
}

// startPasta starts pasta. When pasta ends, reading from the pipe fails.
func (o *owner) startPasta(n boundary.Network, args []string, pipe *os.File) (*pasta, error) {
	gone := make(chan struct{})
	p, err := o.children.start(n.Program, args, &os.ProcAttr{
		Dir: "/", Env: []string{MarkName + "=" + o.start.Mark}, Files: []*os.File{nil, os.Stdout, os.Stderr},
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}, func() {
		_ = pipe.SetReadDeadline(time.Unix(1, 0)) // an error means that the pipe is closed
		close(gone)
	})
	if err != nil {
		return nil, fmt.Errorf("start pasta: %w; install it (Debian's package passt) or run the agent as root", err)
	}
	return &pasta{process: p, network: n, gone: gone}, nil
}
