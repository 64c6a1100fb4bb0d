package identity

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// withCaller adds caller tokens to the metadata of a call, as the gateway does.
func withCaller(ctx context.Context, tokens []string) context.Context {
	for _, token := range tokens {
		ctx = metadata.AppendToOutgoingContext(ctx, authn.MetadataCaller, token)
	}
	return ctx
}

// access returns an access token of the admin.
func (w *peerNetwork) access(ctx context.Context, t *testing.T) string {
	t.Helper()
	admin := at(1)
	admin.name, admin.password = "admin", w.Password.Reveal()
	admin.login(ctx, t, w.Installation)
	return admin.token
}

// listenAddresses returns the addresses on which a process listens.
func listenAddresses(t *testing.T, pid int) []string {
	t.Helper()
	sockets := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:[") {
			sockets[strings.Trim(to, "socket:[]")] = true
		}
	}
	var out []string
	for _, table := range []string{"tcp", "tcp6"} {
		raw, err := os.ReadFile("/proc/net/" + table)
		require.NoError(t, err)
		for line := range strings.Lines(string(raw)) {
			// The columns are sl, local_address, rem_address, st, ..., inode. 0A means LISTEN.
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" && sockets[f[9]] {
				out = append(out, address(t, f[1]))
			}
		}
	}
	slices.Sort(out)
	return out
}

// address parses an address in /proc/net/tcp. Its 32-bit words are little-endian.
func address(t *testing.T, text string) string {
	t.Helper()
	host, port, _ := strings.Cut(text, ":")
	ip, err := hex.DecodeString(host)
	require.NoError(t, err)
	for i := 0; i < len(ip); i += 4 {
		slices.Reverse(ip[i : i+4])
	}
	n, err := strconv.ParseUint(port, 16, 16)
	require.NoError(t, err)
	return net.JoinHostPort(net.IP(ip).String(), strconv.FormatUint(n, 10))
}

// getPlain requests a path over plain HTTP and returns the status, or 0 if the port does not use HTTP.
func getPlain(t *testing.T, addr, path string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	return resp.StatusCode, string(raw)
}

// adminPaths returns the paths that no listener except the admin listener may serve.
func adminPaths() []string {
	return []string{"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=1", "/metrics", "/statusz", "/readyz", "/debug/vars"}
}

// listeners requests adminPaths, / and /healthz on every port of every process. No port may serve them, except that the
// public port serves /healthz.
func (w *peerNetwork) listeners(t *testing.T) {
	t.Helper()
	public := strings.TrimPrefix(w.URL, "http://")
	for _, name := range w.Order {
		addrs := listenAddresses(t, w.Processes[name].PID())
		if name != "agent" {
			require.NotEmpty(t, addrs, name)
		}
		for _, addr := range addrs {
			for _, path := range append(adminPaths(), "/", "/healthz") {
				status, body := getPlain(t, addr, path)
				switch {
				case addr == public && path == "/healthz":
					require.Equal(t, http.StatusOK, status)
				case addr == public:
					require.Equal(t, http.StatusNotFound, status, "%s%s of %s: %s", addr, path, name, body)
					require.True(t, json.Valid([]byte(body)))
				default:
					// A TLS listener responds to plain HTTP with 400 or not at all.
					require.Contains(t, []int{0, http.StatusBadRequest}, status, "%s%s of %s: %s", addr, path, name, body)
				}
			}
		}
	}
}

// TestDebugPaths_onlyOnAdminListener starts signalboxd with an admin listener. Only that listener may serve
// adminPaths, and not even that listener may serve /debug/vars.
func TestDebugPaths_onlyOnAdminListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	admin := l.Addr().String()
	require.NoError(t, l.Close())
	env := cheapHashing()
	env["SERVICE_ADMIN_LISTEN"] = admin
	s := testenv.Single(t, testenv.Options{Env: env})
	require.Eventually(t, func() bool {
		status, _ := getPlain(t, admin, "/readyz")
		return status == http.StatusOK
	}, testenv.StageTimeout, 20*time.Millisecond, "signalboxd does not become ready, which it does when inference has its lease")
	addrs := listenAddresses(t, s.Processes["signalboxd"].PID())
	require.Contains(t, addrs, admin)
	for _, addr := range addrs {
		for _, path := range adminPaths() {
			status, body := getPlain(t, addr, path)
			if addr == admin && path != "/debug/vars" {
				require.Equal(t, http.StatusOK, status, "%s: %s", path, body)
				continue
			}
			require.Contains(t, []int{0, http.StatusBadRequest, http.StatusNotFound}, status, "%s%s: %s", addr, path, body)
		}
	}
}
