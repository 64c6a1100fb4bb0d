package boundary

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// NetworkKind is the way in which the network of works is restricted. The node reports it.
type NetworkKind string

// The kinds, the strictest first.
const (
	// Filtered: the kernel filters the packets that a work sends. It recognizes them by the work's user.
	Filtered NetworkKind = "filter"
	// OwnNetwork: each work has a network namespace of its own. The program pasta connects it to the network of the
	// node.
	OwnNetwork NetworkKind = "namespace"
	// Open: a work reaches everything that the node reaches.
	Open NetworkKind = "open"
)

// Network describes what a work reaches. On the node, the work reaches its own ports, the name servers and the
// addresses in Reach. Outside the node, it reaches everything except for the networks in Avoid. The zero value
// restricts nothing.
type Network struct {
	Kind NetworkKind `json:"kind,omitempty"`
	// Closed is true for a work without a network. The work reaches only its own ports and the addresses in Reach, and
	// no name servers.
	Closed bool `json:"closed,omitempty"`
	// Hosts is the path of the file that a closed work sees as /etc/hosts. The work must see the folder of that file.
	// If Hosts is empty, the work knows only the name localhost.
	Hosts string `json:"hosts,omitempty"`
	// Reach are the addresses and TCP ports that the work may reach, even on the node itself and in the networks of
	// Avoid.
	Reach []netip.AddrPort `json:"reach,omitempty"`
	// Avoid are networks and ports that the work must not reach.
	Avoid []Destination `json:"avoid,omitempty"`
	// Resolvers are the name servers of the node.
	Resolvers []netip.Addr `json:"resolvers,omitempty"`
	// Serve is the port on which the work listens. The agent reaches it at the node's loopback address. Serve is 0 for
	// a work that does not listen. Only OwnNetwork uses it.
	Serve int `json:"serve,omitempty"`
	// Program is the path of pasta. Only OwnNetwork uses it.
	Program string `json:"program,omitempty"`
}

// On reports whether the network is restricted.
func (n Network) On() bool { return n.Kind == Filtered || n.Kind == OwnNetwork }

// Destination is a network, or one of its ports.
type Destination struct {
	Prefix netip.Prefix `json:"prefix"`
	// Port is 0 for all ports and protocols.
	Port uint16 `json:"port,omitempty"`
}

// The addresses in a work's own network: the address of the work, the address of its router, and the address at which
// the work reaches the node's name servers. No other network uses these addresses.
const (
	ownAddress  = "169.254.77.2"
	ownRouter   = "169.254.77.1"
	ownResolver = "169.254.77.53"
	ownBits     = "24"
)

// Pasta returns the command line with which pasta connects the network of the process with the given pid to the network
// of the node. When the networks are connected, pasta writes its own pid to the file whose path is the parameter ready.
func (n Network) Pasta(pid int, ready string) []string {
	serve, reach := "none", "none"
	if n.Serve != 0 {
		serve = "127.0.0.1/" + strconv.Itoa(n.Serve)
	}
	var ports []string
	for _, a := range n.Reach {
		if a.Addr().IsLoopback() {
			ports = append(ports, strconv.Itoa(int(a.Port())))
		}
	}
	if len(ports) > 0 {
		slices.Sort(ports)
		reach = strings.Join(slices.Compact(ports), ",")
	}
	args := []string{
		n.Program, "--foreground", "--quiet", "--config-net", "--no-map-gw", "--address", ownAddress, "--netmask", ownBits, "--gateway", ownRouter,
	}
	if !n.Closed {
		args = append(args, "--dns-forward", ownResolver)
	}
	return append(args, "--tcp-ports", serve, "--udp-ports", "none", "--tcp-ns", reach, "--udp-ns", "none", "--pid", ready, strconv.Itoa(pid))
}

// Resolver looks up the addresses of a host name; net.Resolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Addresses returns the addresses of host:port.
func Addresses(ctx context.Context, names Resolver, address string) ([]netip.AddrPort, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("parse the address %q: %w", address, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("parse the port of %q: %w", address, err)
	}
	found, err := lookup(ctx, names, host)
	if err != nil {
		return nil, err
	}
	all := make([]netip.AddrPort, 0, len(found))
	for _, a := range found {
		all = append(all, netip.AddrPortFrom(a, uint16(port)))
	}
	return all, nil
}

// Destinations returns the destinations for a text, which is a network such as 10.1.0.0/16, a host, or host:port.
func Destinations(ctx context.Context, names Resolver, text string) ([]Destination, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return []Destination{{Prefix: prefix.Masked()}}, nil
	}
	host, port := text, uint16(0)
	if _, err := netip.ParseAddr(text); err != nil && strings.Contains(text, ":") {
		with, err := Addresses(ctx, names, text)
		all := make([]Destination, 0, len(with))
		for _, a := range with {
			all = append(all, Destination{Prefix: whole(a.Addr()), Port: a.Port()})
		}
		return all, err
	}
	found, err := lookup(ctx, names, host)
	all := make([]Destination, 0, len(found))
	for _, a := range found {
		all = append(all, Destination{Prefix: whole(a), Port: port})
	}
	return all, err
}

// Reachable returns the addresses of the given places. A place is a URL or host:port. It also returns the host
// names in these places with their addresses, in the format of /etc/hosts. The error describes the places that were
// left out because their names cannot be looked up.
func Reachable(ctx context.Context, names Resolver, places []string) (reach []netip.AddrPort, hosts string, err error) {
	var lines strings.Builder
	for _, place := range places {
		if strings.Contains(place, "://") {
			place = HostOf(place)
		}
		if place == "" {
			continue
		}
		found, failed := Addresses(ctx, names, place)
		err = errors.Join(err, failed)
		reach = append(reach, found...)
		host, _, _ := net.SplitHostPort(place)
		if _, failed := netip.ParseAddr(host); failed == nil || !hostName(host) {
			continue
		}
		for _, a := range found {
			fmt.Fprintf(&lines, "%s %s\n", a.Addr(), host)
		}
	}
	return reach, lines.String(), err
}

// OwnHosts returns the lines of /etc/hosts for the names under which the work reaches its own ports.
func OwnHosts(names ...string) string {
	var lines strings.Builder
	lines.WriteString("127.0.0.1 localhost\n::1 localhost\n")
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if _, err := netip.ParseAddr(name); err != nil && hostName(name) {
			lines.WriteString("127.0.0.1 " + name + "\n")
		}
	}
	return lines.String()
}

// hostName reports whether /etc/hosts can contain the name.
func hostName(name string) bool {
	const runes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	return name != "" && strings.Trim(name, runes) == ""
}

// NodeAddresses returns the addresses of the node, except for loopback and link-local addresses, which every network
// namespace has.
func NodeAddresses() ([]Destination, error) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of the node: %w", err)
	}
	var all []Destination
	for _, a := range found {
		prefix, err := netip.ParsePrefix(a.String())
		if addr := prefix.Addr(); err == nil && !addr.IsLoopback() && !addr.IsLinkLocalUnicast() {
			all = append(all, Destination{Prefix: whole(addr)})
		}
	}
	return all, nil
}

func whole(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

func lookup(ctx context.Context, names Resolver, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap().WithZone("")}, nil
	}
	found, err := names.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("look up the addresses of %s: %w", host, err)
	}
	found = slices.Clone(found) // the resolver may keep its slice
	for n, a := range found {
		found[n] = a.Unmap().WithZone("")
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found), nil
}

// Resolvers returns the name servers in a file in the format of resolv.conf. If the file contains no name server,
// Resolvers returns 127.0.0.1, because programs then use a name server on the node.
func Resolvers(path string) ([]netip.Addr, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the name servers: %w", err)
	}
	var found []netip.Addr
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" {
			if a, err := netip.ParseAddr(fields[1]); err == nil {
				found = append(found, a.Unmap().WithZone(""))
			}
		}
	}
	if len(found) == 0 {
		found = append(found, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return found, nil
}

// HostOf returns host:port of an http or https URL, or an empty string for other text.
func HostOf(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	port := map[string]string{"http": "80", "https": "443"}[strings.ToLower(scheme)]
	rest, _, _ = strings.Cut(rest, "/")
	if _, host, found := strings.Cut(rest, "@"); found {
		rest = host
	}
	if port == "" || rest == "" {
		return ""
	}
	host, given, err := net.SplitHostPort(rest)
	if err != nil {
		host = strings.Trim(rest, "[]")
	}
	return net.JoinHostPort(host, cmp.Or(given, port))
}
