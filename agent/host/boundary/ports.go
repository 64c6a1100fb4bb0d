package boundary

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// PortRange is a range of TCP ports, First to Last.
type PortRange struct {
	First uint16 `json:"first"`
	Last  uint16 `json:"last"`
}

// Ports are the TCP ports on which a work must not listen at any address of the node. A work with its own network
// listens only in that network and needs no such restriction. The zero value restricts nothing.
type Ports struct {
	// Reserved are the ports of the installation. The work must not listen on them even if no other program listens on
	// them now.
	Reserved []PortRange `json:"reserved,omitempty"`
	// Busy are the ports on which other programs were listening when the work was started.
	Busy []uint16 `json:"busy,omitempty"`
	// Own is the reserved port on which the work listens; 0 for a work without one.
	Own uint16 `json:"own,omitempty"`
	// ChosenOnly means that the work may listen only on ports that the kernel chooses. Such a work starts faster, because
	// Landlock needs a rule for each port that a work may choose.
	ChosenOnly bool `json:"chosen_only,omitempty"`
}

// on reports whether ports are restricted.
func (p Ports) on() bool { return len(p.Reserved)+len(p.Busy) > 0 || p.ChosenOnly }

// firstPort is the first port that normally needs no privilege. Works get no lower ports, although containers often
// permit them.
const firstPort = 1024

// open returns the ports on which the work may listen. They include port 0, which lets the kernel choose a port.
func (p Ports) open() []uint16 {
	if p.ChosenOnly {
		return []uint16{0}
	}
	const all = 1 << 16
	var closed [all]bool
	for _, r := range p.Reserved {
		for port := int(r.First); port <= int(r.Last); port++ {
			closed[port] = true
		}
	}
	for _, port := range p.Busy {
		closed[port] = true
	}
	closed[p.Own] = false
	open := make([]uint16, 1, all) // port 0
	for port := firstPort; port < all; port++ {
		if !closed[port] {
			open = append(open, uint16(port))
		}
	}
	return open
}

// others returns the reserved ports without the work's own port.
func (p Ports) others() []PortRange {
	var all []PortRange
	for _, r := range p.Reserved {
		if p.Own < r.First || p.Own > r.Last {
			all = append(all, r)
			continue
		}
		if r.First < p.Own {
			all = append(all, PortRange{First: r.First, Last: p.Own - 1})
		}
		if p.Own < r.Last {
			all = append(all, PortRange{First: p.Own + 1, Last: r.Last})
		}
	}
	return all
}

// reserved returns the rules that drop the packets with which the work would accept connections to a reserved port. The
// kernel may have chosen such a port for the work, or may be too old to refuse the port.
func (f *Filter) reserved() [][]expr.Any {
	others := f.work.Ports.others()
	rules := make([][]expr.Any, 0, len(others))
	for _, r := range others {
		rules = append(rules, join(f.sent(), from(r), flags(synchronize|acknowledge), verdict(expr.VerdictDrop)))
	}
	return rules
}

// cookies returns the rules that drop the SYN cookies of reserved ports. If the queue of a listener is full, the kernel
// confirms connections with cookies. A work can fill the queue of its own listener. Such a packet has no socket and
// therefore no user, so the rules of the method reserved do not match it. The rules must be the last ones, because the
// first of them accepts packets that other rules may reject. They also drop the cookies of the programs to which the
// ports belong.
func (f *Filter) cookies() [][]expr.Any {
	if f.work.Kind != OwnUser {
		return nil // In the work's own namespace, reserved matches all packets.
	}
	others := f.work.Ports.others()
	const each = 2
	rules := make([][]expr.Any, 0, each*len(others))
	confirmation := flags(synchronize | acknowledge)
	anyUser := metaOp(expr.MetaKeySKUID, expr.CmpOpGte, native32(0)) // does not match a packet without a user
	for _, r := range others {
		rules = append(rules, join(from(r), confirmation, anyUser, verdict(expr.VerdictAccept)), join(from(r), confirmation, verdict(expr.VerdictDrop)))
	}
	return rules
}

// requests returns the rules that reject the work's requests for connections to reserved ports of the node. Without
// these rules, another program's confirmation would be dropped, see loopback. The request would then stay in the queue
// of that program's listener. A work could fill the queue, and full queues need the cookies that are dropped.
func (f *Filter) requests(local []expr.Any) [][]expr.Any {
	others := f.work.Ports.others()
	rules := make([][]expr.Any, 0, len(others))
	for _, r := range others {
		rules = append(rules, join(f.sent(), local, toward(r), flags(synchronize), reject()))
	}
	return rules
}

// spoofed returns the rules that reject the work's packets to an address in Network.Reach if it is an IPv6 address of the
// node and the source is another address. The source is the same address, unless the program has set another one. If
// the setting net.ipv6.ip_nonlocal_bind of the node is on, a program can set an address that the node does not have.
// Nothing then ends the request, and it stays in the queue of the listener. Works cannot use the option IPV6_FREEBIND,
// see addressRules.
func (f *Filter) spoofed(address netip.Addr) [][]expr.Any {
	if f.work.Kind != OwnUser || !address.Is6() {
		return nil
	}
	const offset = 8
	local := meta(expr.MetaKeyOIFTYPE, loopbackDevice())
	return [][]expr.Any{join(f.sent(), local, to(whole(address)), []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: net6},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: address.AsSlice()},
	}, reject())}
}

// from matches TCP packets whose source port is in the given range.
func from(r PortRange) []expr.Any { return portIn(r, 0) }

// toward matches TCP packets whose destination port is in the given range.
func toward(r PortRange) []expr.Any {
	const offset = 2
	return portIn(r, offset)
}

// portIn matches TCP packets that have a port of the range at the given offset.
func portIn(r PortRange, offset uint32) []expr.Any {
	const size = 2
	return join(meta(expr.MetaKeyL4PROTO, []byte{unix.IPPROTO_TCP}), []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: size},
		&expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: big16(r.First), ToData: big16(r.Last)},
	})
}

func big16(v uint16) []byte { return []byte{byte(v >> 8), byte(v)} }

// Listening returns the TCP ports on which programs of the machine listen, except for programs whose user id is in the
// given range. The parameter proc is the path /proc.
func Listening(proc string, users Users) ([]uint16, error) {
	var ports []uint16
	for _, name := range []string{"tcp", "tcp6"} {
		table, err := os.ReadFile(filepath.Join(proc, "net", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // The kernel has no IPv6.
		}
		if err != nil {
			return nil, fmt.Errorf("list the ports on which programs listen: %w", err)
		}
		for line := range bytes.Lines(table) {
			if port, user, ok := listener(strings.Fields(string(line))); ok && !users.Contains(user) {
				ports = append(ports, port)
			}
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports), nil
}

// listener returns the port and the user of a line of /proc/net/tcp. ok is false if the line does not describe a listener.
func listener(fields []string) (port uint16, user int, ok bool) {
	const address, state, uid, listening = 1, 3, 7, "0A"
	if len(fields) <= uid || fields[state] != listening {
		return 0, 0, false
	}
	_, text, _ := strings.Cut(fields[address], ":")
	number, errPort := strconv.ParseUint(text, 16, 16)
	user, errUser := strconv.Atoi(fields[uid])
	return uint16(number), user, errPort == nil && errUser == nil
}

// Since version portsVersion of its interface (Linux 6.7), Landlock can restrict the ports on which a process listens.
// Since version scopesVersion (Linux 6.12), it can hide abstract Unix sockets.
const (
	portsVersion  = 4
	scopesVersion = 6
)

// LandlockVersion returns the version of the kernel's Landlock, or 0 if it has none.
func LandlockVersion() int {
	version, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0
	}
	return int(version)
}

// restrict hides the abstract Unix sockets that other works and the system have created, and refuses the ports on which
// the work must not listen. The sockets and the ports belong to the network namespace, which a work may share with the
// node. Older kernels can do neither. These rules apply only to bind. For a socket without bind, the kernel chooses the
// port, see Filter.reserved.
func (i Isolation) restrict() error {
	version := LandlockVersion()
	var handled unix.LandlockRulesetAttr
	if version >= scopesVersion {
		handled.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	if version >= portsVersion && i.Ports.on() {
		handled.Access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP
	}
	if handled.Scoped == 0 && handled.Access_net == 0 {
		return nil
	}
	// Older kernels accept a longer structure if the fields that they do not know are zero.
	fd, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled), 0) //nolint:gosec // package unix has no function for it
	if e != 0 {
		return fmt.Errorf("create the rules: %w", e)
	}
	defer func() { _ = unix.Close(int(fd)) }()
	if handled.Access_net != 0 {
		if err := allowPorts(fd, i.Ports.open()); err != nil {
			return err
		}
	}
	if _, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); e != 0 {
		return e
	}
	return nil
}

// portRule is the kernel's struct landlock_net_port_attr.
type portRule struct{ access, port uint64 }

// allowPorts adds a rule for each port, because Landlock has no rules for ranges of ports and no rules that refuse. It
// takes about a tenth of a second of processor time.
func allowPorts(ruleset uintptr, ports []uint16) error {
	const ofPort = 2 // the kernel's LANDLOCK_RULE_NET_PORT
	rule := portRule{access: unix.LANDLOCK_ACCESS_NET_BIND_TCP}
	for _, port := range ports {
		rule.port = uint64(port)
		_, _, e := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, ofPort, uintptr(unsafe.Pointer(&rule)), 0, 0, 0) //nolint:gosec // package unix has no function for it
		if e != 0 {
			return fmt.Errorf("allow port %d: %w", port, e)
		}
	}
	return nil
}
