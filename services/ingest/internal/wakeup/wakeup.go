// Package wakeup wakes followers on other replicas sooner, through Redis if it is configured. Redis stores no data: if it
// is missing, killed or frozen, Postgres still wakes the followers. No call takes longer than callTimeout, and after
// breakAfter failures in a row no call is made for breakFor.
package wakeup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	channel     = "signalbox:ingest:run"
	callTimeout = 50 * time.Millisecond
	// After breakAfter failures in a row the breaker opens for breakFor.
	breakAfter = 3
	breakFor   = 2 * time.Second
	// pingEvery is the interval of the pings on a silent subscription.
	pingEvery  = time.Second
	maxPending = 4096
)

// Wakeups notifies other replicas of commits through Redis.
type Wakeups struct {
	client *redis.Client
	clock  clock.Clock
	log    *slog.Logger

	mu   sync.Mutex
	runs map[string]bool // not published yet
	news chan struct{}

	failures int
	until    time.Time
}

// New returns a Live for a Redis URL. It connects when it is first used.
func New(url secret.String, clk clock.Clock, log *slog.Logger) (*Wakeups, error) {
	o, err := redis.ParseURL(url.Reveal())
	if err != nil {
		return nil, errors.New("SERVICE_REDIS_URL must have the form redis://[user:password@]host:port/db")
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = callTimeout, callTimeout, callTimeout, callTimeout
	o.MaxRetries, o.DialerRetries = -1, 1
	redis.SetLogger(library{log}) // the library has one logger per process; its default writes to stderr
	o.ContextTimeoutEnabled = true
	o.PoolSize = 4
	return &Wakeups{client: redis.NewClient(o), clock: clk, log: log, runs: map[string]bool{}, news: make(chan struct{}, 1)}, nil
}

// Tell queues runs that have news for publishing. It never blocks. Runs beyond maxPending are not published; their
// followers are woken by Postgres.
func (l *Wakeups) Tell(runs []string) {
	l.mu.Lock()
	for _, id := range runs {
		if len(l.runs) < maxPending {
			l.runs[id] = true
		}
	}
	l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// Run publishes the queued runs and calls wake for runs that other replicas publish, until ctx ends.
func (l *Wakeups) Run(ctx context.Context, wake func(runs []string)) error {
	defer func() { _ = l.client.Close() }()
	return process.Group(ctx,
		process.Worker{Name: "publish", Run: l.publish},
		process.Worker{Name: "subscribe", Run: func(ctx context.Context) error { return l.subscribe(ctx, wake) }},
	)
}

func (l *Wakeups) publish(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.news:
		}
		runs := l.take()
		if len(runs) == 0 || l.open() {
			continue
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := l.client.Publish(call, channel, strings.Join(runs, ",")).Err()
		cancel()
		l.count(ctx, err)
	}
}

func (l *Wakeups) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	runs := make([]string, 0, len(l.runs))
	for id := range l.runs {
		runs = append(runs, id)
	}
	clear(l.runs)
	return runs
}

// open reports whether the breaker is open. Only publish uses the breaker.
func (l *Wakeups) open() bool { return l.clock.Now().Before(l.until) }

func (l *Wakeups) count(ctx context.Context, err error) {
	if err == nil {
		l.failures = 0
		return
	}
	if l.failures++; l.failures == breakAfter {
		l.failures = 0
		l.until = l.clock.Now().Add(breakFor)
		l.log.WarnContext(ctx, "redis calls paused after repeated failures", "error", err)
	}
}

// subscribe calls listen again and again, with a backoff after failures.
func (l *Wakeups) subscribe(ctx context.Context, wake func(runs []string)) error {
	backoff := process.Backoff{Min: 200 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.5}
	for try := 0; ; try++ {
		if l.listen(ctx, wake) {
			try = 0
		}
		if err := backoff.Wait(ctx, l.clock, try); err != nil {
			return err
		}
	}
}

// listen calls wake for messages until the connection fails. It reports whether the subscription was established.
func (l *Wakeups) listen(ctx context.Context, wake func(runs []string)) (established bool) {
	sub := l.client.Subscribe(ctx, channel)
	defer func() { _ = sub.Close() }()
	waiting := false // for the reply to a ping
	for {
		msg, err := sub.ReceiveTimeout(ctx, pingEvery)
		switch m := msg.(type) {
		case *redis.Message:
			wake(strings.Split(m.Payload, ","))
		case *redis.Subscription, *redis.Pong:
			established, waiting = true, false
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil || waiting || !established || !timedOut(err) {
			return established
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err = sub.Ping(call)
		cancel()
		if err != nil {
			return established
		}
		waiting = true
	}
}

func timedOut(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

// library is the logger of the Redis library. It logs at debug level, because the breaker reports repeated failures.
type library struct{ log *slog.Logger }

// Printf implements the library's logger.
func (l library) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "redis library", "text", fmt.Sprintf(format, v...))
}
