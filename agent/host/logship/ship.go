package logship

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Log describes one work's log file and where it is sent.
type Log struct {
	Path    string
	Journal string
	// Endpoint returns the base URL of the ingest routes. It is called for each try, because the address of the
	// control plane may change. Token is the run's ingest token.
	Endpoint func() string
	Token    secret.String
	RunID    string
	// Writer identifies this execution to the server, as `agent-<work id>-<generation>-<fence>`.
	Writer string
	// Node is the name of this node, with which the server stores the lines. It is not sent if a header cannot contain it.
	Node string
}

// Shipper delivers logs.
type Shipper struct {
	client  *http.Client
	clock   clock.Clock
	backoff func(try int) time.Duration
	log     *slog.Logger
}

// NewShipper returns a shipper. backoff returns the wait after a failed try; try counts from 0.
func NewShipper(client *http.Client, clk clock.Clock, backoff func(try int) time.Duration, log *slog.Logger) *Shipper {
	return &Shipper{client: client, clock: clk, backoff: backoff, log: log}
}

const (
	// flush is the time between two checks of the log file.
	flush = 200 * time.Millisecond
	// patience is the maximum time to wait for the rest of an incomplete line.
	patience = time.Second
)

// Run delivers the log file while it grows. The caller closes ended when the file is complete; Run then
// delivers the rest and returns.
func (s *Shipper) Run(ctx context.Context, l Log, ended <-chan struct{}) error {
	j, err := openJournal(l.Journal)
	if err != nil {
		return err
	}
	defer j.close()
	r := run{Shipper: s, log: l, journal: j}
	if j.open != nil {
		if err := r.deliver(ctx, *j.open); err != nil {
			return err
		}
	}
	tick := s.clock.NewTicker(flush)
	defer tick.Stop()
	for {
		// Check the channel before reading, so that the read includes all text that was written before it was closed.
		final := closed(ended)
		more, err := r.step(ctx, final)
		if err != nil || (final && !more) {
			return err
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C():
		case <-ended:
		}
	}
}

type run struct {
	*Shipper
	log     Log
	journal *journal
	// waiting is the time at which the first undelivered bytes were seen; zero if there are none.
	waiting time.Time
}

// step delivers the next range. It returns more = false if there is nothing to deliver yet.
func (r *run) step(ctx context.Context, final bool) (more bool, err error) {
	data, err := readAt(r.log.Path, r.journal.end, maxRaw)
	if err != nil || len(data) == 0 {
		return false, err
	}
	if r.waiting.IsZero() {
		r.waiting = r.clock.Now()
	}
	// If the read was full, the file may continue after it, even if ended is closed.
	n := cut(data, final && len(data) < maxRaw, !final && clock.Since(r.clock, r.waiting) < patience)
	if n == 0 {
		return false, nil
	}
	r.waiting = time.Time{}
	s, err := r.journal.begin(r.journal.end + int64(n))
	if err != nil {
		return false, err
	}
	return true, r.deliver(ctx, s)
}

// deliver sends the range until the server has accepted or rejected it.
func (r *run) deliver(ctx context.Context, s span) error {
	data, err := readAt(r.log.Path, s.From, s.To-s.From)
	if err != nil {
		return err
	}
	body := encode(r.log.RunID, data)
	for try := 0; ; try++ {
		to := r.log.Endpoint()
		a := r.send(ctx, to, s.Seq, body)
		if a.refused() && to != r.log.Endpoint() {
			continue // the address has changed: another server may use the old one
		}
		if a.final() {
			if a.refused() {
				r.Shipper.log.WarnContext(ctx, "the server rejected a range of the log; dropping it", "writer", r.log.Writer, "seq", s.Seq, "status", a.status)
				return r.journal.finish(a.status)
			}
			return r.journal.finish(0)
		}
		wait := max(r.backoff(try), a.retryAfter)
		if err := clock.Sleep(ctx, r.clock, wait); err != nil {
			return fmt.Errorf("deliver log range %d: %w", s.Seq, errors.Join(err, a.err))
		}
	}
}

func readAt(path string, from, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.NewSectionReader(f, from, n))
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	return data, nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
