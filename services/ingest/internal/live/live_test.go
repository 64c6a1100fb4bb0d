package live

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// server speaks as much of Redis as Live needs, and notes what it is asked.
type server struct {
	t        *testing.T
	listener net.Listener
	// asked are the commands, their words in a row; a test that does not read them holds nobody up.
	asked chan []string

	mu     sync.Mutex
	conns  map[net.Conn]bool
	subs   []net.Conn
	silent bool // takes commands and answers nothing
	shut   bool // cuts every connection at once
}

func serve(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{t: t, listener: l, asked: make(chan []string, 10_000), conns: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[conn] = true
			s.mu.Unlock()
			all.Go(func() { s.talk(conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); s.cut(); all.Wait() })
	return s
}

// cut ends every connection.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.conns, s.subs = map[net.Conn]bool{}, nil
}

func (s *server) set(silent, shut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent, s.shut = silent, shut
}

func (s *server) talk(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	for {
		words, err := command(r)
		if err != nil {
			return
		}
		words[0] = strings.ToLower(words[0])
		goes := s.answer(conn, words)
		s.asked <- words
		if !goes {
			return
		}
	}
}

// answer tells whether the connection goes on.
func (s *server) answer(conn net.Conn, words []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := "-ERR unknown command\r\n"
	switch {
	case s.shut:
		return false
	case s.silent:
		return true
	case words[0] == "subscribe":
		s.subs = append(s.subs, conn)
		reply = fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(words[1]), words[1])
	case words[0] == "publish":
		reply = ":1\r\n"
	case words[0] == "ping":
		reply = "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
	}
	_, err := io.WriteString(conn, reply)
	return err == nil
}

// say publishes to all who subscribed.
func (s *server) say(payload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.subs {
		_, _ = fmt.Fprintf(conn, "*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(channel), channel, len(payload), payload)
	}
}

// next is the next command, nil where there is none yet.
func (s *server) next() []string {
	select {
	case words := <-s.asked:
		return words
	default:
		return nil
	}
}

// until reads what is asked up to a command of a name.
func (s *server) until(name string) []string {
	s.t.Helper()
	for {
		select {
		case words := <-s.asked:
			if words[0] == name {
				return words
			}
		case <-s.t.Context().Done():
			s.t.Fatal("never asked to " + name)
		}
	}
}

// command reads an array of bulk strings.
func command(r *bufio.Reader) ([]string, error) {
	size := func(mark string) (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, mark)))
	}
	n, err := size("*")
	if err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		length, err := size("$")
		if err != nil {
			return nil, err
		}
		word := make([]byte, length+2)
		if _, err := io.ReadFull(r, word); err != nil {
			return nil, err
		}
		words[i] = string(word[:length])
	}
	return words, nil
}

// notes are log records as text, handed to whoever waits for one.
type notes chan string

func (n notes) Write(b []byte) (int, error) {
	n <- string(b)
	return len(b), nil
}

func open(t *testing.T, addr string, clk clock.Clock) (*Live, notes) {
	t.Helper()
	n := make(notes, 10_000)
	l, err := New(secret.New("redis://"+addr+"/0"), clk, slog.New(slog.NewTextHandler(n, nil)))
	require.NoError(t, err)
	return l, n
}

// start runs a part of Live until the test ends or stop is called; stop waits for it.
func start(t *testing.T, part func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func begin() time.Time { return time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC) }

// soon asks for something again and again until it is so. A call has but 50 ms: on a slow machine one may
// fail, and so may some in a row.
func soon(t *testing.T, is func() bool) {
	t.Helper()
	require.Eventually(t, is, time.Minute, 5*time.Millisecond)
}

func TestWhatIsToldIsPublished(t *testing.T) {
	t.Parallel()
	s := serve(t)
	clk := clock.NewFake(begin())
	l, _ := open(t, s.listener.Addr().String(), clk)
	start(t, l.publish)
	soon(t, func() bool {
		clk.Advance(breakFor)
		l.Tell([]string{"run_1"})
		words := s.next()
		return len(words) == 3 && words[0] == "publish" && words[1] == channel && words[2] == "run_1"
	})
}

func TestTellingNeverWaitsAndIsBounded(t *testing.T) {
	t.Parallel()
	l, _ := open(t, "127.0.0.1:1", clock.NewFake(begin()))
	for i := range 3 * maxTold { // nobody takes it
		l.Tell([]string{fmt.Sprintf("run_%d", i)})
	}
	require.Len(t, l.take(), maxTold, "what is too much is left to Postgres")
	require.Empty(t, l.take())
	l.Tell([]string{"run_1", "run_2"})
	l.Tell([]string{"run_2", "run_3"})
	runs := l.take()
	slices.Sort(runs)
	require.Equal(t, []string{"run_1", "run_2", "run_3"}, runs, "there is room again, for each run once")
}

func TestMessagesWakeTheRunsThatTheyName(t *testing.T) {
	t.Parallel()
	s := serve(t)
	l, _ := open(t, s.listener.Addr().String(), clock.Real())
	woken := make(chan []string, 10_000)
	start(t, func(ctx context.Context) error { return l.Run(ctx, func(runs []string) { woken <- runs }) })
	s.until("subscribe")
	require.Equal(t, []string{"run_1", "run_2"}, s.heard(woken, "run_1,run_2"))
	s.cut()
	s.until("subscribe")
	require.Equal(t, []string{"run_3"}, s.heard(woken, "run_3"), "a subscription that was cut is made again")
}

// heard publishes until it is heard, once more for each command that comes meanwhile.
func (s *server) heard(woken chan []string, payload string) []string {
	s.t.Helper()
	for {
		s.say(payload)
		select {
		case runs := <-woken:
			if strings.Join(runs, ",") == payload { // else one that was said before
				return runs
			}
		case <-s.asked:
		case <-s.t.Context().Done():
			s.t.Fatal("not heard: " + payload)
		}
	}
}

func TestASilentSubscriptionIsTriedAndMadeAnew(t *testing.T) {
	t.Parallel()
	s := serve(t)
	l, _ := open(t, s.listener.Addr().String(), clock.Real())
	woken := make(chan []string, 10_000)
	start(t, func(ctx context.Context) error { return l.subscribe(ctx, func(runs []string) { woken <- runs }) })
	s.until("subscribe")
	s.until("ping")
	s.heard(woken, "run_1")
	s.set(true, false)
	s.until("ping")
	s.set(false, false)
	s.until("subscribe")
	s.heard(woken, "run_2")
}

func TestAfterSomeFailuresInARowRedisIsLeftAloneForAWhile(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.set(false, true)
	clk := clock.NewFake(begin())
	l, notes := open(t, s.listener.Addr().String(), clk)
	start(t, l.publish)
	soon(t, func() bool { l.Tell([]string{"run_1"}); return len(notes) > 0 })
	require.Contains(t, <-notes, "redis is not used for a while")
	s.set(false, false)
	for _, run := range []string{"run_2", "behind"} { // once the second is taken, the first is done with
		l.Tell([]string{run})
		soon(t, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.runs) == 0
		})
	}
	var published []string
	soon(t, func() bool {
		clk.Advance(breakFor)
		l.Tell([]string{"run_3"})
		if words := s.next(); len(words) == 3 && words[0] == "publish" {
			published = append(published, words[2])
		}
		return strings.Contains(strings.Join(published, ","), "run_3")
	})
	require.NotContains(t, strings.Join(published, ","), "run_2", "what was told meanwhile is not caught up with")
}

func TestTheBreakerCountsFailuresInARow(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(begin())
	l, notes := open(t, "127.0.0.1:1", clk)
	fails := func(n int) {
		for range n {
			l.count(t.Context(), io.EOF)
		}
	}
	fails(breakAfter - 1)
	l.count(t.Context(), nil)
	fails(breakAfter - 1)
	require.False(t, l.open(), "a success between them starts the count anew")
	require.Empty(t, notes)
	fails(1)
	require.True(t, l.open())
	require.Contains(t, <-notes, "EOF")
	clk.Advance(breakFor - time.Microsecond)
	require.True(t, l.open())
	clk.Advance(time.Microsecond)
	require.False(t, l.open())
	fails(breakAfter)
	require.True(t, l.open())
}

func TestTheEndOfTheContextEndsAll(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]bool{"answering": false, "frozen": true} {
		s := serve(t)
		s.set(silent, false)
		l, _ := open(t, s.listener.Addr().String(), clock.Real())
		stop := start(t, func(ctx context.Context) error { return l.Run(ctx, func([]string) {}) })
		l.Tell([]string{"run_1"})
		<-s.asked
		stop()
		require.Error(t, l.client.Ping(t.Context()).Err(), "%s: the connections are closed", name)
	}
}

func TestAWrongAddressIsNamedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://:hunter2%zz@h", "http://hunter2", "redis://:hunter2@h/notanumber", ""} {
		_, err := New(secret.New(url), clock.Real(), slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "SERVICE_REDIS_URL", url)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
