package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/agent/executor"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Deps are the dependencies of a link.
type Deps struct {
	Membership Membership
	// Dial connects to the control plane's agent listener with the identity of the given node.
	Dial func(Node) (*grpc.ClientConn, error)
	// HTTP downloads objects.
	HTTP  *http.Client
	Clock clock.Clock
	// Incarnation is a random value, new at each start of the agent.
	Incarnation string
	Drivers     []string
	// Boundary returns how the node isolates works. It may wait until that is known.
	Boundary func(context.Context) (*jobsv1.NodeBoundary, error)
	// Pythons returns the names of the interpreters that the node offers to jobs.
	Pythons func() []string
	// Cluster is the Slurm cluster on which the executor runs works; nil if it runs them on its host.
	Cluster executor.Cluster
	Backoff clock.Backoff
	Log     *slog.Logger
}

// Link is the connection to the control plane. New starts nothing.
type Link struct {
	deps  Deps
	flush chan chan struct{}

	mu     sync.Mutex
	agents jobsv1.AgentServiceClient
	// batches are the sets of downloads that were announced with Expect and are not done.
	batches map[*batch]struct{}
	// leave ends the current session so that the next one uses a new certificate.
	leave context.CancelFunc
}

// New returns a link that is not connected.
func New(d Deps) *Link { return &Link{deps: d, flush: make(chan chan struct{})} }

func (l *Link) client() jobsv1.AgentServiceClient {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.agents
}

// Join joins the fleet with a single request. It opens no stream.
func (l *Link) Join(ctx context.Context) (Node, error) { return l.deps.Membership.Join(ctx) }

// Run joins the fleet if necessary and keeps a stream to the control plane open until ctx ends. It passes desired works
// to x and sends the observations of x. It returns an error earlier if the stored node cannot be read, if the fleet
// rejects the agent, or if Dial fails, for example with ErrCertificateExpired. It returns ErrRemoved when the control
// plane has removed the node.
func (l *Link) Run(ctx context.Context, x executor.Executor) error {
	node, err := l.deps.Membership.LoadOrJoin(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	var keeping sync.WaitGroup
	defer keeping.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keeping.Go(func() { l.keepCertificate(ctx, node) })
	for try := 0; ; try++ {
		conn, err := l.deps.Dial(node)
		if err != nil {
			return fmt.Errorf("dial the agent listener: %w", err)
		}
		s := &session{Link: l, node: node, executor: x, heartbeat: node.Heartbeat}
		renewed, err := l.attend(ctx, conn, s)
		if ctx.Err() != nil {
			return nil
		}
		if fault.HasCode(err, codeRemoved) {
			return node.removedError()
		}
		if s.welcomed || renewed {
			try = 0
		}
		if renewed {
			continue
		}
		wait := l.deps.Backoff.Wait(try)
		l.deps.Log.WarnContext(ctx, "connection to the control plane lost", "error", err.Error(), "retry_in", wait.String())
		if clock.Sleep(ctx, l.deps.Clock, wait) != nil {
			return nil
		}
	}
}

// attend runs one session on conn and closes conn. renewed is true if leaveLine ended the session because of
// a new certificate. It is also true if ctx has ended.
func (l *Link) attend(ctx context.Context, conn *grpc.ClientConn, s *session) (renewed bool, err error) {
	defer func() { _ = conn.Close() }()
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	l.mu.Lock()
	l.agents, l.leave = jobsv1.NewAgentServiceClient(conn), leave
	l.mu.Unlock()
	err = s.run(ctx)
	return ctx.Err() != nil, err
}

// leaveLine ends the current session. Run then starts another session.
func (l *Link) leaveLine() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leave != nil {
		l.leave()
	}
}

// Flush sends the current observations. It returns an error if that was not possible
// before ctx ended.
func (l *Link) Flush(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case l.flush <- done:
	case <-ctx.Done():
		return fmt.Errorf("send the last observations: %w", ctx.Err())
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("send the last observations: %w", ctx.Err())
	}
}

// session is one stream to the control plane.
type session struct {
	*Link
	node      Node
	executor  executor.Executor
	heartbeat time.Duration
	welcomed  bool

	wanted wanted
}

const usualHeartbeat = 5 * time.Second

// farewell is the maximum time for sending the last messages after the session's context has ended.
const farewell = 300 * time.Millisecond

func (s *session) run(ctx context.Context) error {
	// The stream outlives ctx by up to farewell. Otherwise messages that are in transit when ctx ends would be
	// lost.
	line, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		_ = clock.Sleep(line, s.deps.Clock, farewell)
		cancel()
	})()
	boundary, err := s.deps.Boundary(ctx)
	if err != nil {
		return err
	}
	stream, err := s.client().Connect(line)
	if err != nil {
		return fmt.Errorf("open the stream to the control plane: %w", err)
	}
	err = stream.Send(&jobsv1.ConnectRequest{Message: &jobsv1.ConnectRequest_Hello{Hello: s.hello(boundary)}})
	if err == nil {
		err = s.sendObserved(stream)
	}
	if err != nil {
		// If Send fails, Recv returns the messages that still arrive, and then the reason why the stream ended.
		var received error
		for received == nil {
			_, received = stream.Recv()
		}
		return fmt.Errorf("send the first messages to the control plane: %w", errors.Join(err, received))
	}
	beats := make(chan time.Duration, 1)
	received := make(chan error, 1)
	go func() { received <- s.receive(line, stream, beats) }()
	return s.speak(ctx, stream, beats, received)
}

// speak sends the observations after each change, at each heartbeat and whenever Flush is called. When receive ends,
// speak returns the error of receive. When ctx ends, speak closes the sending side of the stream. The control plane
// then reads the remaining messages and ends the stream.
func (s *session) speak(
	ctx context.Context, stream jobsv1.AgentService_ConnectClient, beats <-chan time.Duration, received <-chan error,
) error {
	if s.heartbeat <= 0 {
		s.heartbeat = usualHeartbeat
	}
	tick := s.deps.Clock.NewTicker(s.heartbeat)
	defer tick.Stop()
	var reports <-chan struct{} // never ready without a cluster
	if s.deps.Cluster != nil {
		reports = s.deps.Cluster.ReportChanges()
	}
	for {
		var done chan struct{}
		select {
		case err := <-received:
			return err
		case <-ctx.Done():
			_ = stream.CloseSend()
			return errors.Join(ctx.Err(), <-received)
		case beat := <-beats:
			s.welcomed = true
			if beat > 0 {
				tick.Reset(beat)
			}
			continue
		case <-reports:
			if err := s.sendReport(stream); err != nil {
				return errors.Join(err, <-received)
			}
			continue
		case <-s.executor.Changes():
		case <-tick.C():
		case done = <-s.flush:
		}
		if err := s.sendObserved(stream); err != nil {
			return errors.Join(err, <-received)
		}
		if done != nil {
			close(done)
		}
	}
}

func (s *session) sendObserved(stream jobsv1.AgentService_ConnectClient) error {
	err := stream.Send(&jobsv1.ConnectRequest{Message: &jobsv1.ConnectRequest_Observed{Observed: toObserved(s.executor.Observed())}})
	if err != nil {
		return fmt.Errorf("send the observations: %w", err)
	}
	return nil
}

// receive handles the messages of the control plane until the stream ends.
func (s *session) receive(ctx context.Context, stream jobsv1.AgentService_ConnectClient, beats chan<- time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	var fetching sync.WaitGroup
	defer fetching.Wait()
	defer cancel()
	incomplete := make(chan struct{}, 1)
	fetching.Go(func() { s.fetchWorks(ctx, incomplete) })
	for {
		message, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("receive a message from the control plane: %w", err)
		}
		switch m := message.GetMessage().(type) {
		case *jobsv1.ConnectResponse_Welcome:
			select {
			case beats <- seconds(m.Welcome.GetHeartbeatS()):
			case <-ctx.Done():
			}
		case *jobsv1.ConnectResponse_Desired:
			if s.deps.Cluster != nil {
				s.deps.Cluster.SetPools(fromPools(m.Desired.GetPools()))
			}
			if s.apply(ctx, m.Desired) {
				select {
				case incomplete <- struct{}{}:
				default:
				}
			}
		}
	}
}
