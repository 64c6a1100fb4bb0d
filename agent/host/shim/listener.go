package shim

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// PortTakenError reports that a process outside a work listens on the work's port.
type PortTakenError struct {
	Port int
	// PID is the process that listens, or 0 if it is unknown.
	PID int
}

func (p *PortTakenError) Error() string {
	if p.PID == 0 {
		return fmt.Sprintf("another process listens on port %d", p.Port)
	}
	return fmt.Sprintf("another process (pid %d) listens on port %d", p.PID, p.Port)
}

// CheckPort returns a result if a process outside the work listens on the port, so that it would receive connections to
// 127.0.0.1. The work is the one whose shim runs in the folder dir; user is the work's own user, or 0 if it has none.
//
// CheckPort returns nil if no process listens, if the work listens, or if neither can be shown. The latter needs two
// things: the work has no user of its own, and a process of the work hides its descriptors from the agent. That is so if
// the process has changed its user, or has cleared its dumpable flag as pasta does, and the agent lacks CAP_SYS_PTRACE.
// Only processes in the network namespace of the agent are seen: for an engine with a network of its own, that is the
// program that forwards the port to it.
func (c Control) CheckPort(dir string, port, user int) *PortTakenError {
	// Look twice: a process of the work may be missed if its parent starts it and ends during the first look.
	if c.otherListener(dir, port, user) == nil {
		return nil
	}
	return c.otherListener(dir, port, user)
}

func (c Control) otherListener(dir string, port, user int) *PortTakenError {
	others := map[string]bool{}
	for _, l := range listeners(port) {
		if user == 0 || l.user != user {
			others[l.socket] = true
		}
	}
	hidden := false
	look := func(pids ...int) {
		for _, pid := range pids {
			if len(others) == 0 {
				return
			}
			sockets, readable := socketsOf(pid)
			hidden = hidden || !readable
			for _, s := range sockets {
				delete(others, s)
			}
		}
	}
	// Errors mean that no command has been started, so that all listeners are others.
	r, _ := c.Running(dir)
	if len(others) > 0 && r.Command.Alive() {
		look(r.Command.PID) // usually the listener
	}
	if len(others) > 0 && r.Shim.Alive() {
		look(Descendants(r.Shim.PID)...)
	}
	if len(others) == 0 || hidden {
		return nil
	}
	for _, pid := range all() {
		sockets, _ := socketsOf(pid)
		if slices.ContainsFunc(sockets, func(s string) bool { return others[s] }) {
			return &PortTakenError{Port: port, PID: pid}
		}
	}
	return &PortTakenError{Port: port}
}

// socketsOf returns the sockets that the process has open, as the links in its folder fd name them. readable is false if
// the process exists but hides them.
func socketsOf(pid int) (sockets []string, readable bool) {
	folder := "/proc/" + strconv.Itoa(pid) + "/fd/"
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, !errors.Is(err, fs.ErrPermission)
	}
	for _, e := range entries {
		to, err := os.Readlink(folder + e.Name())
		if errors.Is(err, fs.ErrPermission) {
			return nil, false
		}
		if strings.HasPrefix(to, "socket:") {
			sockets = append(sockets, to)
		}
	}
	return sockets, true
}

// listener is a listening socket.
type listener struct {
	socket string // as socketsOf returns it
	user   int
	rank   int
}

// The ranks of listeners by their address. The kernel gives a connection to 127.0.0.1 to a listener of the highest rank.
const (
	rankAny6 = iota + 1
	rankAny4
	rankExact
)

// listeners returns the sockets that accept connections to the port at 127.0.0.1. It returns none if the kernel's tables
// cannot be read. There may be several because of the option SO_REUSEPORT.
func listeners(port int) []listener {
	suffix := fmt.Appendf(nil, ":%04X ", port)
	var found []listener
	best := 0
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, _ := os.ReadFile(path) // tcp6 is missing in a kernel without IPv6
		for line := range bytes.Lines(table) {
			if !bytes.Contains(line, suffix) {
				continue
			}
			if l, ok := parseListener(strings.Fields(string(line)), port); ok {
				found, best = append(found, l), max(best, l.rank)
			}
		}
	}
	return slices.DeleteFunc(found, func(l listener) bool { return l.rank < best })
}

// parseListener parses a line of /proc/net/tcp. ok is false if the line does not describe a listener that could accept
// connections to the port at 127.0.0.1.
func parseListener(fields []string, port int) (l listener, ok bool) {
	const local, state, user, inode, listening = 1, 3, 7, 9, "0A"
	if len(fields) <= inode || fields[state] != listening {
		return l, false
	}
	host, number, _ := strings.Cut(fields[local], ":")
	const base, bits = 16, 16
	p, err := strconv.ParseUint(number, base, bits)
	if err != nil || int(p) != port {
		return l, false
	}
	a, ok := parseAddress(host)
	switch {
	case !ok:
		return l, false
	case a == netip.AddrFrom4([4]byte{127, 0, 0, 1}):
		l.rank = rankExact
	case !a.IsUnspecified():
		return l, false
	case a.Is4():
		l.rank = rankAny4
	default:
		l.rank = rankAny6
	}
	l.socket = "socket:[" + fields[inode] + "]"
	l.user, err = strconv.Atoi(fields[user])
	return l, err == nil
}

// parseAddress parses an address of /proc/net/tcp, where each 32 bits are a number in the byte order of the machine.
func parseAddress(text string) (netip.Addr, bool) {
	raw, err := hex.DecodeString(text)
	const word = 4
	if err != nil || len(raw)%word != 0 {
		return netip.Addr{}, false
	}
	for part := range slices.Chunk(raw, word) {
		binary.NativeEndian.PutUint32(part, binary.BigEndian.Uint32(part))
	}
	a, ok := netip.AddrFromSlice(raw)
	return a.Unmap(), ok
}
