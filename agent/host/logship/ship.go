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

// Log is one work's log file and its destination.
type Log struct {
	Path    string
	Journal string
	// Endpoint returns the base URL of the ingest routes. It is called for each try, because the
	// control plane may move. Token is the run's ingest token.
	Endpoint func() string
	Token    secret.String
	RunID    string
	// Writer identifies this execution to the server: `agent-<key>`.
	Writer string
}

// Shipper delivers logs.
type Shipper struct {
	client  *http.Client
	clock   clock.Clock
	backoff func(try int) time.Duration
	log     *slog.Logger
}

// NewShipper returns a shipper. backoff returns the wait after a failed try, counted from 0.
func NewShipper(client *http.Client, clk clock.Clock, backoff func(try int) time.Duration, log *slog.Logger) *Shipper {
	return &Shipper{client: client, clock: clk, backoff: backoff, log: log}
}

const (
	// flush is the shortest time between two checks of the file.
	flush = 200 * time.Millisecond
	// patience is the time that an incomplete line waits for its end.
	patience = time.Second
)

// Run delivers the log until all of it is delivered. It can return only after ended is closed,
// which means that the file does not grow any more.
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
		// Check ended before reading, so that all text written before it is read.
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
	// waiting is the time since which an incomplete line has been held back.
	waiting time.Time
}

// step delivers the next range; more is false if there is none.
func (r *run) step(ctx context.Context, final bool) (more bool, err error) {
	data, err := readAt(r.log.Path, r.journal.end, maxRaw)
	if err != nil || len(data) == 0 {
		return false, err
	}
	if r.waiting.IsZero() {
		r.waiting = r.clock.Now()
	}
	// A full read may not reach the end of the file, even if ended is closed.
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
			continue // the old address may belong to another server now
		}
		if a.final() {
			if a.refused() {
				r.Shipper.log.WarnContext(ctx, "log range rejected and dropped", "writer", r.log.Writer, "seq", s.Seq, "status", a.status)
				return r.journal.finish(a.status)
			}
			return r.journal.finish(0)
		}
		wait := max(r.backoff(try), a.retryAfter)
		if err := clock.Sleep(ctx, r.clock, wait); err != nil {
			return fmt.Errorf("log range %d not delivered: %w", s.Seq, errors.Join(err, a.err))
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
