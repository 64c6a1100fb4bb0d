package httpguard

import (
	"net"

	"golang.org/x/sys/unix"
)

// ignoreAttempts attaches a socket filter that drops each TCP segment with SYN and without ACK, so that no new
// handshake begins. Segments that complete a handshake pass.
func ignoreAttempts(l *net.TCPListener) error {
	const flags, syn, ack = 13, 0x02, 0x10 // RFC 9293, section 3.1
	const whole = 1 << 18                  // longer than any segment
	filters := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: syn | ack},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: syn, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: whole},
	}
	return control(l, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]})
	})
}

// waiting returns how many connections wait to be accepted.
func waiting(l *net.TCPListener) (n uint32, err error) {
	err = control(l, func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			n = info.Unacked // The kernel reports this number here for a socket that listens.
		}
		return err
	})
	return n, err
}

func control(l *net.TCPListener, use func(fd int) error) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = use(int(fd)) }); err != nil {
		return err
	}
	return failed
}
