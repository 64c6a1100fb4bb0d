package follow

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	channel     = "signalbox:ingest:run"
	callTimeout = 50 * time.Millisecond
	// After breakAfter consecutive failures, publish drops all runs for breakFor.
	breakAfter = 3
	breakFor   = 2 * time.Second
	// pingEvery is the interval between the pings on a subscription. A subscription that receives nothing for silentFor
	// is replaced.
	pingEvery  = time.Second
	silentFor  = 2 * pingEvery
	maxPending = 4096
)

// Wakeups notifies other replicas through Redis, if Redis is configured, so that they wake their followers sooner than
// the notifications of Postgres do. Redis stores no data: if it does not respond, Postgres still wakes the followers.
// Publishing takes at most callTimeout. After breakAfter consecutive failures, nothing is published for breakFor.
type Wakeups struct {
	url   secret.String
	clock clock.Clock
	log   *slog.Logger

	mu   sync.Mutex
	runs map[string]bool // runs that are not published yet
	news chan struct{}   // receives a value when runs were added

	failures int
	until    time.Time
}

// database matches the path of a Redis URL: the number of a database, or nothing.
var database = regexp.MustCompile(`^(?:/\d{0,4})?$`)

// CheckRedis returns an error if NewWakeups rejects the Redis URL. The error does not contain the URL, which may have a password.
func CheckRedis(address secret.String) error {
	u, err := url.Parse(address.Reveal())
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Hostname() == "" || !database.MatchString(u.Path) || u.RawQuery != "" {
		return errors.New("SERVICE_REDIS_URL must have the form redis://[user:password@]host:port/db, or rediss:// for TLS")
	}
	return nil
}

// NewWakeups returns Wakeups for a Redis URL, or an error if the URL is not valid. It opens no connection; Run does.
func NewWakeups(address secret.String, clk clock.Clock, log *slog.Logger) (*Wakeups, error) {
	if err := CheckRedis(address); err != nil {
		return nil, err
	}
	return &Wakeups{url: address, clock: clk, log: log, runs: map[string]bool{}, news: make(chan struct{}, 1)}, nil
}

// dial connects to Redis. On the connection, a write takes at most callTimeout. A read also takes at most callTimeout,
// unless the caller sets another timeout for the read.
func (l *Wakeups) dial(ctx context.Context) (redis.Conn, error) {
	return redis.DialURLContext(ctx, l.url.Reveal(), redis.DialConnectTimeout(callTimeout), redis.DialTLSHandshakeTimeout(callTimeout),
		redis.DialReadTimeout(callTimeout), redis.DialWriteTimeout(callTimeout))
}

// Notify queues runs that have new data, so that Run publishes them. It never blocks. If maxPending runs are queued,
// further runs are not published; Postgres wakes their followers.
func (l *Wakeups) Notify(runs []string) {
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

// Run publishes the queued runs and calls wake for the runs that any replica publishes, until ctx ends.
func (l *Wakeups) Run(ctx context.Context, wake func(runs []string)) error {
	return process.Group(ctx,
		process.Worker{Name: "publish", Run: l.publish},
		process.Worker{Name: "subscribe", Run: func(ctx context.Context) error { return l.subscribe(ctx, wake) }},
	)
}

func (l *Wakeups) publish(ctx context.Context) error {
	// The pool holds the only connection that publish uses, and closes this connection after a failure.
	pool := &redis.Pool{MaxIdle: 1, DialContext: l.dial}
	defer func() { _ = pool.Close() }()
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
		l.count(ctx, send(ctx, pool, runs))
	}
}

func send(ctx context.Context, pool *redis.Pool, runs []string) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := pool.GetContext(call)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = redis.DoContext(conn, call, "PUBLISH", channel, strings.Join(runs, ","))
	return err
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

// open reports whether the circuit breaker is open, which means that publishing is paused. Only publish uses the
// circuit breaker.
func (l *Wakeups) open() bool { return l.clock.Now().Before(l.until) }

func (l *Wakeups) count(ctx context.Context, err error) {
	if err == nil {
		l.failures = 0
		return
	}
	if l.failures++; l.failures == breakAfter {
		l.failures = 0
		l.until = l.clock.Now().Add(breakFor)
		l.log.WarnContext(ctx, "publishing to Redis is paused after repeated failures; Postgres wakes the followers", "error", err)
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

// listen calls wake for each message until the connection fails. It reports whether the subscription was established.
func (l *Wakeups) listen(ctx context.Context, wake func(runs []string)) (established bool) {
	conn, err := l.dial(ctx)
	if err != nil {
		return false
	}
	sub := redis.PubSubConn{Conn: conn}
	// If one worker fails, the other worker ends too: ping because its ctx is canceled, and receive because ping closes
	// the connection.
	_ = process.Group(ctx,
		process.Worker{Name: "ping", Run: func(ctx context.Context) error {
			defer func() { _ = sub.Close() }()
			return l.ping(ctx, sub)
		}},
		process.Worker{Name: "receive", Run: func(context.Context) error {
			established, err = receive(sub, wake)
			return err
		}},
	)
	return established
}

// ping subscribes and then sends pings, until a write fails or ctx ends.
func (l *Wakeups) ping(ctx context.Context, sub redis.PubSubConn) error {
	if err := sub.Subscribe(channel); err != nil {
		return err
	}
	for {
		if err := clock.Sleep(ctx, l.clock, pingEvery); err != nil {
			return err
		}
		if err := sub.Ping(""); err != nil {
			return err
		}
	}
}

// receive calls wake for each message, until the connection fails or receives nothing for silentFor. It reports whether
// Redis confirmed the subscription, which must happen before Redis replies to a ping.
func receive(sub redis.PubSubConn, wake func(runs []string)) (established bool, err error) {
	for {
		switch m := sub.ReceiveWithTimeout(silentFor).(type) {
		case redis.Subscription:
			established = true
		case redis.Message:
			wake(strings.Split(string(m.Data), ","))
		case redis.Pong:
			if !established {
				return false, errors.New("redis replied to a ping before it confirmed the subscription")
			}
		case error:
			return established, m
		}
	}
}
