package work

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/wake"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/topic"
)

// Observer applies what a node reports.
type Observer interface {
	Observe(ctx context.Context, nodeID string, report []Seen) error
}

// Nodes keeps the sessions and the liveness of nodes.
type Nodes interface {
	Open(ctx context.Context, h fleet.Hello) (session int64, err error)
	Session(ctx context.Context, nodeID string) (int64, error)
	Beat(b fleet.Beat)
}

// Agents serves the agents' streams.
type Agents struct {
	Pool      *pgxpool.Pool
	Works     *Store
	Observer  Observer
	Nodes     Nodes
	Hub       *wake.Hub
	Clock     clock.Clock
	Heartbeat time.Duration
	// IngestEndpoint is the base of the ingest routes, with /api/ingest. It is told anew each time:
	// a restart may have moved it.
	IngestEndpoint func() string
}

type agentStream = grpc.BidiStreamingServer[jobsv1.ConnectRequest, jobsv1.ConnectResponse]

// session is one open stream of a node.
type session struct {
	*Agents
	beat   fleet.Beat
	stream agentStream

	known  chan []Key // what the node has, by its newest report
	failed chan error // the reader's end
	told   []byte     // what was told last, nil before
}

// Serve runs one stream until it ends or a newer one of the same node takes its place.
func (a *Agents) Serve(stream agentStream) error {
	ctx := stream.Context()
	hello, err := a.hello(stream)
	if err != nil {
		return err
	}
	number, err := a.Nodes.Open(ctx, hello)
	if err != nil {
		return err
	}
	s := &session{
		Agents: a, beat: fleet.Beat{NodeID: hello.NodeID, Session: number}, stream: stream,
		known: make(chan []Key, 1), failed: make(chan error, 1),
	}
	welcome := &jobsv1.Welcome{HeartbeatS: int32(max(1, a.Heartbeat/time.Second))}
	if err := stream.Send(&jobsv1.ConnectResponse{Message: &jobsv1.ConnectResponse_Welcome{Welcome: welcome}}); err != nil {
		return fmt.Errorf("welcome a node: %w", err)
	}
	// The reader ends with the stream's context, which the return of this handler ends.
	go func() { s.failed <- s.read(ctx) }()
	return s.tellAll(ctx)
}

func (a *Agents) hello(stream agentStream) (fleet.Hello, error) {
	first, err := stream.Recv()
	if err != nil {
		return fleet.Hello{}, fmt.Errorf("read the hello of a node: %w", err)
	}
	m := first.GetHello()
	if m == nil {
		return fleet.Hello{}, fault.New(fault.Refused, "hello", "the first message of a stream is hello")
	}
	caller := authn.Of(stream.Context())
	if caller.Kind != authn.KindAgent || caller.Subject != m.GetNodeId() {
		return fleet.Hello{}, fault.New(fault.Forbidden, "node", "the certificate is not that of node %s", m.GetNodeId())
	}
	i := m.GetInventory()
	return fleet.Hello{
		NodeID: m.GetNodeId(), Incarnation: m.GetIncarnation(), Drivers: append([]string{}, m.GetDrivers()...),
		Inventory: fleet.Inventory{
			CPUs: int(i.GetCpus()), MemoryBytes: i.GetMemoryBytes(), GPUs: int(i.GetGpus()),
			Limits: i.GetLimits(), Version: i.GetVersion(),
		},
	}, nil
}

// read takes what the node sends until the stream ends.
func (s *session) read(ctx context.Context) error {
	for {
		m, err := s.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from a node: %w", err)
		}
		s.Nodes.Beat(s.beat)
		if m.GetObserved() == nil {
			continue
		}
		if err := s.observe(ctx, m.GetObserved()); err != nil {
			return err
		}
	}
}

func (s *session) observe(ctx context.Context, m *jobsv1.ObservedWorks) error {
	if err := s.current(ctx); err != nil {
		return err
	}
	report := make([]Seen, 0, len(m.GetWorks()))
	keys := make([]Key, 0, len(m.GetWorks()))
	for _, o := range m.GetWorks() {
		seen, err := seenFromProto(o)
		if err != nil {
			return err
		}
		report, keys = append(report, seen), append(keys, seen.Key)
	}
	if err := s.Observer.Observe(ctx, s.beat.NodeID, report); err != nil {
		return err
	}
	select {
	case <-s.known: // an older report that nobody has looked at
	default:
	}
	s.known <- keys
	return nil
}

// tellAll tells the node what it shall do, whenever that changes and with every heartbeat.
func (s *session) tellAll(ctx context.Context) error {
	changed := s.Hub.Wait(topic.Node(s.beat.NodeID))
	defer changed.Close()
	beat := s.Clock.NewTicker(s.Heartbeat)
	defer beat.Stop()
	var has []Key
	for always := true; ; {
		if err := s.tell(ctx, has, always); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.failed:
			return err
		case has = <-s.known:
			always = false
		case <-changed.C:
			always = false
		case <-beat.C():
			always = true
		}
	}
}

func (s *session) tell(ctx context.Context, has []Key, always bool) error {
	if err := s.current(ctx); err != nil {
		return err
	}
	wanted, err := s.Works.OnNode(ctx, s.Pool, s.beat.NodeID)
	if err != nil {
		return err
	}
	works, err := desired(wanted, has, s.IngestEndpoint())
	if err != nil {
		return err
	}
	m := &jobsv1.DesiredWorks{Works: works}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("write what a node shall do: %w", err)
	}
	if !always && s.told != nil && string(raw) == string(s.told) {
		return nil
	}
	if err := s.stream.Send(&jobsv1.ConnectResponse{Message: &jobsv1.ConnectResponse_Desired{Desired: m}}); err != nil {
		return fmt.Errorf("tell a node what to do: %w", err)
	}
	s.told = append([]byte{}, raw...)
	return nil
}

// desired is what the rows want of a node, and the end of all else that it has.
func desired(wanted []*Work, has []Key, ingestEndpoint string) ([]*jobsv1.Work, error) {
	works := make([]*jobsv1.Work, 0, len(wanted))
	named := make(map[string]bool, len(wanted))
	for _, w := range wanted {
		m, err := toProto(w, ingestEndpoint)
		if err != nil {
			return nil, err
		}
		works = append(works, m)
		named[w.ID] = true
	}
	for _, k := range has {
		if !named[k.ID] {
			works = append(works, gone(k))
		}
	}
	return works, nil
}

// current is a conflict once a newer stream of the node is open.
func (s *session) current(ctx context.Context) error {
	number, err := s.Nodes.Session(ctx, s.beat.NodeID)
	if err != nil {
		return err
	}
	if number != s.beat.Session {
		return fault.New(fault.Conflict, "superseded", "a newer stream of node %s is open", s.beat.NodeID)
	}
	return nil
}
