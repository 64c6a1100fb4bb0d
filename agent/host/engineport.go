package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

// maxTaken is the number of starts whose port another process may take before an engine that was never ready is given up.
const maxTaken = 3

// portTries limits the search for a free port. A try takes some microseconds.
const portTries = 100

// takePort chooses a random port of the range for the next start of the work. The port is free at all addresses of the node. No other
// agent in the same network namespace chooses it before releasePort is called and the shim that has received the
// file w.portLock has ended.
//
// The port itself is not kept open in the meantime: the work may run as another user and bind its port without any
// option, and the kernel would refuse that beside any other socket on the port. Programs other than agents can
// therefore take the port. checkPort detects that.
func (w *work) takePort(ctx context.Context, among boundary.PortRange) (int, error) {
	w.releasePort()
	taken := errors.New("all ports are reserved")
	for try := range 2 * portTries {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err := rand.Int(w.host.deps.Rand, big.NewInt(int64(among.Last-among.First)+1))
		if err != nil {
			return 0, fmt.Errorf("draw a port: %w", err)
		}
		port := int(among.First) + int(n.Int64())
		if slices.Contains(w.host.cfg.ReservedPorts, uint16(port)) {
			continue // no work may listen on it
		}
		// Every program can bind the names of the locks. Choose a port without a lock rather than none.
		if w.portLock, taken = lockPort(port); taken != nil && try < portTries {
			continue
		}
		if taken = portFree(port); taken == nil {
			return port, nil
		}
		w.releasePort()
	}
	return 0, fmt.Errorf("find a free port in %d tries, the last one: %w", 2*portTries, taken)
}

// releasePort closes the agent's copy of the lock of the port.
func (w *work) releasePort() {
	if w.portLock != nil {
		_ = w.portLock.Close()
		w.portLock = nil
	}
}

// lockPort returns the lock of a port for all agents in this network namespace, or an error if another agent has it. The
// lock is an abstract Unix socket, which the kernel removes when no process has it open any more.
func lockPort(port int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("create the lock of port %d: %w", port, err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "@signalbox-engine-port-" + strconv.Itoa(port)}); err != nil {
		return nil, errors.Join(fmt.Errorf("lock port %d: %w", port, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "lock of port "+strconv.Itoa(port)), nil
}

// portFree returns an error if a TCP socket of this network namespace uses the port at any IPv4 address. It sets no
// option, so that sockets that do not listen, and those that share their port, count too.
func portFree(port int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("create a socket for port %d: %w", port, err)
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Port: port}); err != nil {
		err = fmt.Errorf("bind port %d: %w", port, err)
	}
	return errors.Join(err, unix.Close(fd))
}

// portTakenError reports that another process listens on the engine's port.
type portTakenError struct{ cause error }

func (p *portTakenError) Error() string {
	return fmt.Sprintf("%s, which the agent chose for the engine; no other program of the node may listen on ports %d to %d",
		p.cause, firstPort, firstPort+ports-1)
}

// checkPort returns a portTakenError if another process listens on the engine's port. That process would receive the
// requests for the engine and with them the engine's key. shim.Control.CheckPort documents when this cannot be known. Then
// such requests are sent, and only the responses can show that they did not reach the engine.
func (e *engineStart) checkPort() error {
	u, err := url.Parse(e.target.Address)
	if err != nil {
		return fmt.Errorf("parse the engine's address: %w", err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return fmt.Errorf("parse the engine's port: %w", err)
	}
	if taken := e.host.control.CheckPort(e.dir, port, e.assignment.User); taken != nil {
		return &portTakenError{cause: taken}
	}
	return nil
}

// leavePort calls checkPort. If another process listens on the port, leavePort reports that the engine cannot be reached
// there, so that no more requests are sent to the port.
func (e *engineStart) leavePort() error {
	err := e.checkPort()
	var taken *portTakenError
	if !errors.As(err, &taken) {
		return err
	}
	return errors.Join(err, e.report(func(r *executor.EngineReport) {
		r.Ready, r.Phase, r.Address = false, executor.EngineStarting, ""
		r.Code, r.Message = executor.CodePortTaken, taken.Error()
	}))
}

// lostPort reports whether this start has ended because another process listens on its port. An engine that could not
// listen has usually exited by itself. It has no processes any more, so that every listener is another process.
func (e *engineStart) lostPort(end executor.Exit, watched error) bool {
	if !errors.As(watched, &e.taken) && !e.served && end.Reason != executor.ReasonStopped {
		errors.As(e.checkPort(), &e.taken)
	}
	return e.taken != nil
}
