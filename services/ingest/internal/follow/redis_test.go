package follow

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// server implements the Redis commands that Wakeups needs, and records all commands.
type server struct {
	t        *testing.T
	listener net.Listener
	// commands receives the words of each command. Its buffer is large enough for tests that do not read it.
	commands chan []string

	mu     sync.Mutex
	conns  map[net.Conn]bool
	subs   []net.Conn
	silent bool // reads commands without replying, except the first one of a connection
	shut   bool // closes every connection at its first command
}

func serve(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{t: t, listener: l, commands: make(chan []string, 10_000), conns: map[net.Conn]bool{}}
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
			all.Go(func() { s.serveConn(conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); s.cut(); all.Wait() })
	return s
}

// cut closes all connections and forgets the subscribers.
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

// open returns the number of connections that neither side has closed.
func (s *server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *server) serveConn(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, conn)
	}()
	r := bufio.NewReader(conn)
	for {
		words, err := command(r)
		if err != nil {
			return
		}
		words[0] = strings.ToLower(words[0])
		ok := s.respond(conn, words)
		s.commands <- words
		if !ok {
			return
		}
	}
}

// respond replies to a command. It reports whether the connection remains open.
func (s *server) respond(conn net.Conn, words []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := "-ERR unknown command\r\n"
	switch {
	case s.shut:
		return false
	case words[0] == "hello": // the library's first command, which an older server does not know
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

// publish sends a message to all subscribers.
func (s *server) publish(payload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.subs {
		_, _ = fmt.Fprintf(conn, "*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(channel), channel, len(payload), payload)
	}
}

// next returns the next command, or nil if none is waiting.
func (s *server) next() []string {
	select {
	case words := <-s.commands:
		return words
	default:
		return nil
	}
}

// until discards commands until it receives one with the given name, and returns that command.
func (s *server) until(name string) []string {
	s.t.Helper()
	for {
		select {
		case words := <-s.commands:
			if words[0] == name {
				return words
			}
		case <-s.t.Context().Done():
			s.t.Fatal("the client did not send the command " + name)
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

// deliver publishes the payload, a list of runs, until the client wakes these runs, and returns the runs. It publishes
// the payload again after each command that the client sends in the meantime.
func (s *server) deliver(woken chan []string, payload string) []string {
	s.t.Helper()
	for {
		s.publish(payload)
		select {
		case runs := <-woken:
			if strings.Join(runs, ",") == payload { // otherwise the client has received an earlier message
				return runs
			}
		case <-s.commands:
		case <-s.t.Context().Done():
			s.t.Fatal("the client did not wake the runs " + payload)
		}
	}
}
