package allinone

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

// listen listens on the public address. For port 0 it reuses the port of the last start on this folder if that
// port is still free, because jobs that kept running in between report to it.
func (f *folder) listen(addr string) (net.Listener, error) {
	l, err := f.listenAgain(addr)
	if err != nil {
		return nil, err
	}
	tcp, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return l, nil
	}
	if err := pki.WriteFile(f.in("port"), []byte(strconv.Itoa(tcp.Port)+"\n")); err != nil {
		return nil, errors.Join(fmt.Errorf("save the port: %w", err), l.Close())
	}
	return l, nil
}

func (f *folder) listenAgain(addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if n, notPort := strconv.Atoi(port); err != nil || (port != "" && (notPort != nil || n != 0)) {
		return listen(addr) // a fixed port, or an invalid one
	}
	raw, err := os.ReadFile(f.in("port"))
	if last, notPort := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 16); err == nil && notPort == nil && last != 0 {
		if l, err := listen(net.JoinHostPort(host, strconv.FormatUint(last, 10))); err == nil {
			return l, nil
		}
	}
	return listen(addr)
}
