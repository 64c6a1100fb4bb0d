package boundary

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Filter restricts the packets that a work sends. It is a table of the kernel's packet filter and belongs to the
// process that has created it: no other process can change it, and the kernel removes it when the process ends or calls
// Close.
type Filter struct {
	conn  *nftables.Conn
	table *nftables.Table
	chain *nftables.Chain
	work  Isolation
	// held is a second descriptor of the connection. The kernel removes the table when the last descriptor is closed.
	// The garbage collector closes the connection when nothing refers to the filter any more, but it does not close
	// held.
	held int
}

// ownedByProcess is the kernel's NFT_TABLE_F_OWNER, which exists since Linux 5.12.
const ownedByProcess = 2

// NewFilter creates the filter of the work. The calling process must not end before the work's processes.
func (i Isolation) NewFilter() (*Filter, error) {
	f := &Filter{work: i, table: &nftables.Table{Name: "signalbox-work-" + strconv.Itoa(i.UID) + "-" + strconv.Itoa(os.Getpid()), Family: nftables.TableFamilyINet}}
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(f.create))
	if err != nil {
		return nil, fmt.Errorf("create the packet filter of the work: %w; load nf_tables and give the agent CAP_NET_ADMIN", err)
	}
	f.conn = conn
	accept := nftables.ChainPolicyAccept
	f.chain = conn.AddChain(&nftables.Chain{
		Name: "output", Table: f.table, Type: nftables.ChainTypeFilter, Policy: &accept,
		Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter,
	})
	if err := f.Change(i.Network); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// create creates the table and keeps the connection open.
func (f *Filter) create(c *netlink.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("find the descriptor of the connection: %w", err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) { f.held, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("keep the connection open: %w", err)
	}
	if err := ownTable(c, f.table); err != nil {
		return errors.Join(err, unix.Close(f.held))
	}
	return nil
}

// ownTable creates the table. The library cannot create tables that belong to a process.
func ownTable(c *netlink.Conn, t *nftables.Table) error {
	attributes, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: unix.NFTA_TABLE_NAME, Data: append([]byte(t.Name), 0)},
		{Type: unix.NFTA_TABLE_FLAGS, Data: binary.BigEndian.AppendUint32(nil, ownedByProcess)},
	})
	if err != nil {
		return fmt.Errorf("describe the table: %w", err)
	}
	header := func(family, resource byte) []byte { return []byte{family, unix.NFNETLINK_V0, 0, resource} }
	_, err = c.SendMessages([]netlink.Message{
		{Header: netlink.Header{Type: unix.NFNL_MSG_BATCH_BEGIN, Flags: netlink.Request}, Data: header(0, unix.NFNL_SUBSYS_NFTABLES)},
		{
			Header: netlink.Header{
				Type:  netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWTABLE),
				Flags: netlink.Request | netlink.Acknowledge | netlink.Create | netlink.Excl,
			},
			Data: append(header(byte(t.Family), 0), attributes...),
		},
		{Header: netlink.Header{Type: unix.NFNL_MSG_BATCH_END, Flags: netlink.Request}, Data: header(0, unix.NFNL_SUBSYS_NFTABLES)},
	})
	if err != nil {
		return fmt.Errorf("send the table: %w", err)
	}
	_, err = c.Receive()
	return err
}

// Change replaces all rules with the rules for the given network, in one step.
func (f *Filter) Change(n Network) error {
	addresses, err := broadcasts()
	if err != nil {
		return err
	}
	f.conn.FlushChain(f.chain)
	for _, rule := range f.rules(n, addresses) {
		f.conn.AddRule(&nftables.Rule{Table: f.table, Chain: f.chain, Exprs: rule})
	}
	if err := f.conn.Flush(); err != nil {
		return fmt.Errorf("set the packet filter of the work: %w", err)
	}
	return nil
}

// Close removes the filter.
func (f *Filter) Close() error { return errors.Join(f.conn.CloseLasting(), unix.Close(f.held)) }

// rules returns the rules in the order in which the kernel tries them.
func (f *Filter) rules(n Network, broadcasts []netip.Addr) [][]expr.Any {
	var rules [][]expr.Any
	add := func(parts ...[]expr.Any) { rules = append(rules, join(parts...)) }
	sent := f.sent()
	const connections, perSecond = 4096, 500
	if f.work.Kind == OwnUser {
		// All programs of the node share the kernel's table of connections. A work must not fill it. Connections that
		// have ended stay in the table for two minutes, so the rate of new connections is limited too: requests above
		// the rate are dropped, and the kernel repeats them. The kernel removes only some 2,000 ended connections a second
		// from its count of open ones. The burst is half of their limit, so that a program that opens and closes
		// connections is delayed by the rate before it is refused by that count.
		add(sent, connectionIs(expr.CtStateBitNEW), []expr.Any{
			&expr.Limit{Type: expr.LimitTypePkts, Rate: perSecond, Unit: expr.LimitTimeSecond, Burst: connections / 2, Over: true},
		}, verdict(expr.VerdictDrop))
		add(sent, connectionIs(expr.CtStateBitNEW), []expr.Any{&expr.Connlimit{Count: connections, Flags: expr.NFT_CONNLIMIT_F_INV}}, reject())
	}
	rules = append(rules, f.reserved()...)
	if f.work.Kind != OwnUser {
		add(meta(expr.MetaKeyOIFTYPE, loopbackDevice()), verdict(expr.VerdictAccept))
	}
	rules = append(rules, f.groups(broadcasts)...)
	for _, a := range n.Reach {
		rules = append(rules, f.spoofed(a.Addr())...)
		add(sent, to(whole(a.Addr())), port(unix.IPPROTO_TCP, a.Port()), verdict(expr.VerdictAccept))
	}
	for _, a := range f.resolvers(n) { // no resolvers if the network is closed
		for _, protocol := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
			const domain = 53
			add(sent, to(whole(a)), port(protocol, domain), verdict(expr.VerdictAccept))
		}
	}
	if f.work.Kind == OwnUser {
		rules = append(rules, f.loopback(sent)...)
	}
	if n.Closed {
		rules = append(rules, f.rest(sent)...)
	} else {
		rules = append(rules, avoid(n, sent)...)
	}
	return append(rules, f.cookies()...)
}

// avoid returns the rules that reject packets to the destinations that the work must not reach.
func avoid(n Network, sent []expr.Any) [][]expr.Any {
	var rules [][]expr.Any
	add := func(parts ...[]expr.Any) { rules = append(rules, join(parts...)) }
	for _, d := range n.Avoid {
		if d.Port == 0 {
			add(sent, to(d.Prefix), reject())
			continue
		}
		for _, protocol := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
			add(sent, to(d.Prefix), port(protocol, d.Port), reject())
		}
	}
	return rules
}

func (f *Filter) resolvers(n Network) []netip.Addr {
	if f.work.Kind == OwnUser || n.Closed {
		return n.Resolvers
	}
	return []netip.Addr{netip.MustParseAddr(ownResolver)}
}

// rest returns the rules that reject what the earlier rules do not accept.
func (f *Filter) rest(sent []expr.Any) [][]expr.Any {
	if f.work.Kind != OwnUser {
		var rules [][]expr.Any
		const routers, neighbours = 133, 136
		for message := byte(routers); message <= neighbours; message++ {
			// With these messages, the kernel looks for the hardware addresses of the IPv6 addresses in Reach. pasta
			// does not forward the messages.
			rules = append(rules, join(meta(expr.MetaKeyL4PROTO, []byte{unix.IPPROTO_ICMPV6}), []expr.Any{
				&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1},
				&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{message}},
			}, verdict(expr.VerdictAccept)))
		}
		return append(rules, reject())
	}
	uid := native32(uint32(f.work.UID))
	return [][]expr.Any{
		join(sent, []expr.Any{
			&expr.Immediate{Register: 1, Data: uid}, &expr.Ct{Key: expr.CtKeyMARK, Register: 1, SourceRegister: true},
		}, reject()),
		// After the work has closed a connection, the kernel sends the last packets of that connection without a user.
		join(not(expr.MetaKeyOIFTYPE, loopbackDevice()), connection(expr.CtKeyMARK, expr.CmpOpEq, uid), reject()),
	}
}

// loopback returns the rules for packets to addresses of the node, where a work may reach only its own ports. When the
// work requests a connection, the filter cannot see which user has the port. But it sees which user confirms the
// request. The rules therefore mark the connections of the work and drop confirmations that another user sends. The
// work then repeats its request, and the rules reject the repeated request.
func (f *Filter) loopback(sent []expr.Any) [][]expr.Any {
	local := meta(expr.MetaKeyOIFTYPE, loopbackDevice())
	uid := native32(uint32(f.work.UID))
	tcp := meta(expr.MetaKeyL4PROTO, []byte{unix.IPPROTO_TCP})
	request, confirmation := flags(synchronize), flags(synchronize|acknowledge)
	markIs := func(op expr.CmpOp) []expr.Any { return connection(expr.CtKeyMARK, op, uid) }
	return append(f.requests(local), [][]expr.Any{
		// Accept responses of the work on connections that another program opened, such as the agent when it probes an
		// engine.
		join(sent, local, direction(reply), verdict(expr.VerdictAccept)),
		join(sent, local, not(expr.MetaKeyL4PROTO, []byte{unix.IPPROTO_TCP}), reject()),
		join(sent, local, tcp, request, connectionIs(expr.CtStateBitESTABLISHED), reject()),
		join(sent, local, connectionIs(expr.CtStateBitNEW), []expr.Any{
			&expr.Immediate{Register: 1, Data: uid}, &expr.Ct{Key: expr.CtKeyMARK, Register: 1, SourceRegister: true},
		}, verdict(expr.VerdictAccept)),
		join(sent, local, markIs(expr.CmpOpNeq), reject()),
		join(sent, local, verdict(expr.VerdictAccept)),
		// A confirmation of a connection that the work has requested is accepted only if the work itself sent it.
		join(local, tcp, markIs(expr.CmpOpEq), direction(reply), confirmation, f.sent(), verdict(expr.VerdictAccept)),
		join(local, tcp, markIs(expr.CmpOpEq), direction(reply), confirmation, verdict(expr.VerdictDrop)),
	}...)
}

// sent matches packets that the work sends.
func (f *Filter) sent() []expr.Any {
	if f.work.Kind != OwnUser {
		return nil // The filter is in the work's own namespace.
	}
	return meta(expr.MetaKeySKUID, native32(uint32(f.work.UID)))
}

// to matches packets whose destination is an address in the given network.
func to(p netip.Prefix) []expr.Any {
	const (
		offset4, offset6 = 16, 24
		bits             = 8
	)
	family, offset, size := byte(unix.NFPROTO_IPV4), uint32(offset4), net4
	if p.Addr().Is6() {
		family, offset, size = unix.NFPROTO_IPV6, offset6, net6
	}
	mask := make([]byte, size)
	for n := range p.Bits() {
		mask[n/bits] |= 1 << (bits - 1 - n%bits)
	}
	return join(meta(expr.MetaKeyNFPROTO, []byte{family}), []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(size)},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: uint32(size), Mask: mask, Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Masked().Addr().AsSlice()},
	})
}

const net4, net6 = 4, 16

func join(parts ...[]expr.Any) []expr.Any { return slices.Concat(parts...) }

// loopbackDevice returns the type of a loopback device as the kernel's packet filter encodes it.
func loopbackDevice() []byte { return binary.NativeEndian.AppendUint16(nil, unix.ARPHRD_LOOPBACK) }

func native32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

func meta(key expr.MetaKey, value []byte) []expr.Any { return metaOp(key, expr.CmpOpEq, value) }

func not(key expr.MetaKey, value []byte) []expr.Any { return metaOp(key, expr.CmpOpNeq, value) }

func metaOp(key expr.MetaKey, op expr.CmpOp, value []byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: op, Register: 1, Data: value}}
}

// port matches packets whose destination is the port with the given number.
func port(protocol byte, number uint16) []expr.Any {
	const offset, size = 2, 2
	return join(meta(expr.MetaKeyL4PROTO, []byte{protocol}), []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: size},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, number)},
	})
}

// The flags of TCP that request and confirm a connection.
const (
	synchronize = 0x02
	acknowledge = 0x10
)

// flags matches TCP packets by the flags synchronize and acknowledge: those in the given set are set, and the others
// are not.
func flags(set byte) []expr.Any {
	const offset = 13
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{synchronize | acknowledge}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{set}},
	}
}

// connection matches packets by a property of their connection.
func connection(key expr.CtKey, op expr.CmpOp, value []byte) []expr.Any {
	return []expr.Any{&expr.Ct{Key: key, Register: 1}, &expr.Cmp{Op: op, Register: 1, Data: value}}
}

// connectionIs matches packets of connections that are in the given state.
func connectionIs(state uint32) []expr.Any {
	const size = 4
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: native32(state), Xor: native32(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: native32(0)},
	}
}

// reply is the direction of packets to the process that has requested the connection.
const reply = 1

func direction(d byte) []expr.Any { return connection(expr.CtKeyDIRECTION, expr.CmpOpEq, []byte{d}) }

func verdict(k expr.VerdictKind) []expr.Any { return []expr.Any{&expr.Verdict{Kind: k}} }

// reject discards the packet and makes the sender's system call fail.
func reject() []expr.Any {
	return []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}}
}

// groups returns the rules that reject multicasts and broadcasts. The node itself receives such packets of a work. They
// would reach every socket on the node that has the port, including the sockets of other works and of services.
func (f *Filter) groups(broadcasts []netip.Addr) [][]expr.Any {
	sent := f.sent()
	if f.work.Kind != OwnUser {
		// The kernel uses ICMPv6 multicasts to find its neighbours. A work itself cannot send ICMPv6 packets.
		sent = not(expr.MetaKeyL4PROTO, []byte{unix.IPPROTO_ICMPV6})
	}
	groups := []netip.Prefix{netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("255.255.255.255/32"), netip.MustParsePrefix("ff00::/8")}
	rules := make([][]expr.Any, 0, len(groups)+len(broadcasts))
	for _, p := range groups {
		rules = append(rules, join(sent, to(p), reject()))
	}
	for _, a := range broadcasts {
		rules = append(rules, join(sent, to(whole(a)), reject()))
	}
	return rules
}

// broadcasts returns the broadcast addresses of the node's networks.
func broadcasts() ([]netip.Addr, error) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of the node: %w", err)
	}
	var all []netip.Addr
	for _, a := range found {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			all = append(all, broadcast(p)...)
		}
	}
	return all, nil
}

// broadcast returns the broadcast address of an IPv4 network, or nothing for other networks.
func broadcast(p netip.Prefix) []netip.Addr {
	const most, bits = 30, 8 // smaller networks have only addresses of hosts
	if !p.Addr().Is4() || p.Bits() > most {
		return nil
	}
	last := p.Addr().As4()
	for n := p.Bits(); n < net4*bits; n++ {
		last[n/bits] |= 1 << (bits - 1 - n%bits)
	}
	return []netip.Addr{netip.AddrFrom4(last)}
}
