package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

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
	options *redis.Options
	clock   clock.Clock
	log     *slog.Logger

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
	o, err := redis.ParseURL(address.Reveal())
	if err != nil {
		return nil, errors.New("SERVICE_REDIS_URL is not a valid Redis URL") // err may contain the password
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = callTimeout, callTimeout, callTimeout, callTimeout
	o.MaxRetries, o.DialerRetries, o.PoolSize, o.ContextTimeoutEnabled = -1, 1, 1, true
	// Send no commands of the library's own, such as its name and version, which some servers do not know.
	o.Protocol, o.DisableIdentity = 2, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &Wakeups{options: o, clock: clk, log: log, runs: map[string]bool{}, news: make(chan struct{}, 1)}, nil
}

// UseRedisLog sends the messages of the Redis library, which has one logger in a process, to log. It logs them at debug level:
// Wakeups itself reports that Redis does not respond.
func UseRedisLog(log *slog.Logger) { redis.SetLogger(libraryLog{log}) }

type libraryLog struct{ log *slog.Logger }

// Printf implements the logger of the Redis library.
func (l libraryLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "message of the Redis library", "text", fmt.Sprintf(format, v...))
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
	client := redis.NewClient(l.options)
	defer func() { _ = client.Close() }()
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
		l.count(ctx, send(ctx, client, runs))
	}
}

func send(ctx context.Context, client *redis.Client, runs []string) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return client.Publish(call, channel, strings.Join(runs, ",")).Err()
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
	client := redis.NewClient(l.options)
	defer func() { _ = client.Close() }()
	backoff := process.Backoff{Min: 200 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.5}
	for try := 0; ; try++ {
		if l.listen(ctx, client, wake) {
			try = 0
		}
		if err := backoff.Wait(ctx, l.clock, try); err != nil {
			return err
		}
	}
}

// listen calls wake for each message until the connection fails. It reports whether the subscription was established.
func (l *Wakeups) listen(ctx context.Context, client *redis.Client, wake func(runs []string)) (established bool) {
	sub := client.Subscribe(ctx)
	// If one worker fails, the other worker ends too: ping because its ctx is canceled, and receive because ping closes
	// the connection.
	_ = process.Group(ctx,
		process.Worker{Name: "ping", Run: func(ctx context.Context) error {
			defer func() { _ = sub.Close() }()
			return l.ping(ctx, sub)
		}},
		process.Worker{Name: "receive", Run: func(ctx context.Context) error {
			var err error
			established, err = receive(ctx, sub, wake)
			return err
		}},
	)
	return established
}

// ping sends pings, until a write fails or ctx ends.
func (l *Wakeups) ping(ctx context.Context, sub *redis.PubSub) error {
	for {
		if err := clock.Sleep(ctx, l.clock, pingEvery); err != nil {
			return err
		}
		if err := sub.Ping(ctx); err != nil {
			return err
		}
	}
}

// receive subscribes and calls wake for each message, until the connection fails or receives nothing for silentFor. It
// reports whether Redis confirmed the subscription, which must happen before Redis replies to a ping.
func receive(ctx context.Context, sub *redis.PubSub, wake func(runs []string)) (established bool, err error) {
	if err := sub.Subscribe(ctx, channel); err != nil {
		return false, err
	}
	for {
		message, err := sub.ReceiveTimeout(ctx, silentFor)
		if err != nil {
			return established, err
		}
		switch m := message.(type) {
		case *redis.Subscription:
			established = true
		case *redis.Message:
			wake(strings.Split(m.Payload, ","))
		case *redis.Pong:
			if !established {
				return false, errors.New("redis replied to a ping before it confirmed the subscription")
			}
		}
	}
}
