package bearer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/process"
)

const (
	// renewEvery is how often the lease is renewed.
	renewEvery = time.Second
	// silent is how long auth may send nothing before the stream counts as lost.
	silent = 5 * time.Second
	// leaveWithin limits how long a stopping gateway takes to give its lease back.
	leaveWithin = time.Second
)

var errSilent = errors.New("auth does not respond")

// Watched is the part of auth that announces changes of callers.
type Watched interface {
	WatchCallers(ctx context.Context, opts ...grpc.CallOption) (grpc.BidiStreamingClient[authpeerv1.WatchCallersRequest, authpeerv1.WatchCallersResponse], error)
}

// Watcher holds the lease under which the checker uses its cache, and drops the cache when auth announces a change.
// While auth is unreachable, the lease expires, and the checker calls auth for each request.
type Watcher struct {
	Checker *Checker
	Auth    Watched
	// ID identifies this gateway. It is random, so that auth cannot mistake an acknowledgement of an earlier process for
	// one of this process.
	ID  string
	Log *slog.Logger
}

// Run watches until ctx ends, and then gives the lease back. It reopens a stream that breaks.
func (w *Watcher) Run(ctx context.Context) {
	backoff := process.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.5}
	for attempt := 0; ; attempt++ {
		served, err := w.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if served {
			attempt = 0
		}
		if attempt == 0 {
			w.Log.WarnContext(ctx, "the stream of caller changes from auth is lost; until it is open again, auth checks each request", "error", err)
		}
		if backoff.Wait(ctx, w.Checker.clk, attempt) != nil {
			return // ctx has ended
		}
	}
}

// callerWatch is one stream of caller changes from auth.
type callerWatch struct {
	*Watcher

	stream  grpc.BidiStreamingClient[authpeerv1.WatchCallersRequest, authpeerv1.WatchCallersResponse]
	applied int64 // the last epoch for which the cache was dropped on this stream; 0 before the first message
	number  int64
	// requested maps the number of each pending renewal to the time of its request, by the monotonic clock.
	requested map[int64]time.Duration
	heard     time.Duration // when auth's last message arrived, by the monotonic clock
}

// once opens one stream and handles its messages until it breaks or ctx ends. The result served reports whether a
// message arrived.
func (w *Watcher) once(ctx context.Context) (served bool, err error) {
	open, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stream, err := w.Auth.WatchCallers(open)
	if err != nil {
		return false, fmt.Errorf("open the stream of caller changes: %w", err)
	}
	s := &callerWatch{Watcher: w, stream: stream, requested: map[int64]time.Duration{}, heard: w.Checker.cache.mono()}
	received, broken := make(chan *authpeerv1.WatchCallersResponse), make(chan error, 1)
	go func() { broken <- s.receive(open, received) }()
	defer func() {
		cancel()
		<-broken //nolint:errcheck // the stream was just cancelled
	}()
	tick := w.Checker.clk.NewTicker(renewEvery)
	defer tick.Stop()
	for err = s.renew(); err == nil; {
		select {
		case <-tick.C():
			err = s.renew()
		case in := <-received:
			served = true
			err = s.take(in)
		case err = <-broken:
			broken <- err
		case <-ctx.Done():
			s.leave(received, broken)
			return served, ctx.Err()
		}
	}
	return served, err
}

func (s *callerWatch) receive(ctx context.Context, out chan<- *authpeerv1.WatchCallersResponse) error {
	for {
		in, err := s.stream.Recv()
		if err != nil {
			return fmt.Errorf("receive from auth: %w", err)
		}
		select {
		case out <- in:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// renew requests an extension of the lease and reports the applied epoch.
func (s *callerWatch) renew() error {
	now := s.Checker.cache.mono()
	if now-s.heard > silent {
		return errSilent
	}
	s.number++
	s.requested[s.number] = now
	return s.send(&authpeerv1.WatchCallersRequest{Renewal: s.number})
}

func (s *callerWatch) send(out *authpeerv1.WatchCallersRequest) error {
	out.GatewayId, out.AckedEpoch = s.ID, s.applied
	if err := s.stream.Send(out); err != nil {
		return fmt.Errorf("send to auth: %w", err)
	}
	return nil
}

// take drops the cache if the epoch has changed, extends the lease and acknowledges the epoch, in this order. The first
// message of a stream always drops the cache, because the epochs of different streams may not be comparable: auth's
// database may have been restored in between.
func (s *callerWatch) take(in *authpeerv1.WatchCallersResponse) error {
	s.heard = s.Checker.cache.mono()
	changed := in.GetEpoch() != s.applied
	if changed {
		s.Checker.cache.drop()
		s.applied = in.GetEpoch()
	}
	if requested, ok := s.requested[in.GetRenewed()]; ok {
		s.Checker.cache.extend(requested + in.GetLease().AsDuration())
		for n := range s.requested {
			if n <= in.GetRenewed() {
				delete(s.requested, n)
			}
		}
	}
	if !changed {
		return nil
	}
	return s.send(&authpeerv1.WatchCallersRequest{})
}

// leave ends the lease and gives it back, so that changes do not wait for this gateway. If that fails, the lease
// expires.
func (s *callerWatch) leave(received <-chan *authpeerv1.WatchCallersResponse, broken chan error) {
	s.Checker.cache.extend(0)
	if s.send(&authpeerv1.WatchCallersRequest{Leaving: true}) != nil || s.stream.CloseSend() != nil {
		return
	}
	limit := s.Checker.clk.NewTimer(leaveWithin)
	defer limit.Stop()
	for {
		select {
		case <-received: // a response to an earlier request
		case err := <-broken: // auth has processed all requests
			broken <- err
			return
		case <-limit.C():
			return
		}
	}
}
