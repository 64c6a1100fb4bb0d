package scale

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// callRate prints how many calls per second 16 clients achieve, and how much CPU time signalboxd and its database use
// per call. With TEST_BIN it measures another version. The clients share the machine with the server, so they do as
// little as they can: each keeps one connection, sends the same bytes again, and reads only the status and the length.
func (h *harness) callRate(ctx context.Context, t *testing.T) {
	t.Helper()
	const clients = 16
	server := h.Processes["signalboxd"].PID()
	admin := h.tokenOf(ctx, "admin", h.Password.Reveal())
	users := []string{admin}
	for i := range 6 { // sign-in from one address is limited
		const password = "a good password of a user"
		name := fmt.Sprintf("caller-%d", i)
		require.NoError(t, h.loop.Client.Post(ctx, "/api/admin/users", map[string]any{"username": name, "role": "operator", "password": password}, nil))
		users = append(users, h.tokenOf(ctx, name, password))
	}
	for _, c := range []struct {
		path   string
		tokens []string
	}{{"/api/auth/me", users[:1]}, {"/api/auth/me", users}, {"/api/recipes", users[:1]}, {"/api/projects", users[:1]}} {
		var rates, costs []float64
		for range rounds {
			period := time.Duration(size(200, 2000)) * time.Millisecond
			until, cancel := context.WithTimeout(ctx, period)
			before, began := cpuTime(t, server), time.Now()
			var done atomic.Int64
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() {
					if err := h.repeat(ctx, until.Done(), c.path, c.tokens[i%len(c.tokens)], &done); err != nil {
						t.Errorf("%s: %v", c.path, err)
					}
				})
			}
			wg.Wait()
			cancel()
			calls := float64(done.Load())
			rates = append(rates, calls/time.Since(began).Seconds())
			costs = append(costs, float64((cpuTime(t, server)-before).Microseconds())/calls)
		}
		report(t, true, "GET %s: %.0f calls a second of %d clients (accounts: %d), %.0f us of CPU time a call",
			c.path, median(rates), clients, len(c.tokens), median(costs))
	}
}

// tokenOf signs in and returns the access token.
func (h *harness) tokenOf(ctx context.Context, name, password string) string {
	h.T.Helper()
	var session struct{ Token string }
	require.NoError(h.T, h.loop.Client.Post(ctx, "/api/auth/login", map[string]string{"username": name, "password": password}, &session))
	return session.Token
}

// repeat sends one request after another on one connection until the channel over is closed.
func (h *harness) repeat(ctx context.Context, over <-chan struct{}, path, token string, done *atomic.Int64) error {
	host := strings.TrimPrefix(h.URL, "http://")
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	request := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", path, host, token)
	in := bufio.NewReader(conn)
	for {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		if err := skipResponse(in); err != nil {
			return err
		}
		done.Add(1)
		select {
		case <-over:
			return nil
		default:
		}
	}
}

// skipResponse reads a response with the status 200.
func skipResponse(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil || !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("status line %q: %w", line, err)
	}
	length := 0
	for len(line) > len("\r\n") {
		if line, err = in.ReadSlice('\n'); err != nil {
			return err
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		} else if bytes.HasPrefix(line, []byte("Transfer-Encoding: chunked")) {
			return skipChunks(in)
		}
	}
	_, err = in.Discard(length)
	return err
}

// skipChunks reads the rest of the header and a chunked body without a trailer.
func skipChunks(in *bufio.Reader) error {
	for line := []byte("header"); len(line) > len("\r\n"); {
		var err error
		if line, err = in.ReadSlice('\n'); err != nil {
			return err
		}
	}
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		chunk, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return err
		}
		if _, err := in.Discard(int(chunk) + len("\r\n")); err != nil || chunk == 0 {
			return err
		}
	}
}

// cpuTime returns the CPU time that a process and its descendants have used so far.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	var ns int64
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	require.NoError(t, err)
	for _, thread := range threads {
		raw, err := os.ReadFile(thread)
		if err != nil {
			continue // the thread has ended
		}
		n, err := strconv.ParseInt(strings.Fields(string(raw))[0], 10, 64)
		require.NoError(t, err)
		ns += n
	}
	total := time.Duration(ns)
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	require.NoError(t, err)
	for _, list := range lists {
		raw, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for child := range strings.FieldsSeq(string(raw)) {
			n, err := strconv.Atoi(child)
			require.NoError(t, err)
			total += cpuTime(t, n)
		}
	}
	return total
}
