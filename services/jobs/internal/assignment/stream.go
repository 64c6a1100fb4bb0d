package assignment

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
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

// Observer applies the reports of nodes.
type Observer interface {
	Observe(ctx context.Context, nodeID string, report []Observed) error
}

// Nodes tracks the sessions and the liveness of nodes.
type Nodes interface {
	Open(ctx context.Context, h fleet.Hello) (session int64, err error)
	Session(ctx context.Context, nodeID string) (int64, error)
	Beat(b fleet.Beat)
	ReportSlurm(ctx context.Context, b fleet.Beat, r *fleet.SlurmReport) error
}

// Agents serves the agents' streams.
type Agents struct {
	Pool      *pgxpool.Pool
	Works     *Store
	Observer  Observer
	Nodes     Nodes
	Fleets    fleet.Store
	Hub       *pg.NotifyHub
	Clock     clock.Clock
	Heartbeat time.Duration
	// IngestEndpoint returns the base URL of the ingest routes, including /api/ingest. It is called for every
	// message, because the URL may change after a restart.
	IngestEndpoint func() string
}

type agentStream = grpc.BidiStreamingServer[jobsv1.ConnectRequest, jobsv1.ConnectResponse]

// session is one open stream of a node.
type session struct {
	*Agents
	beat   fleet.Beat
	stream agentStream
	// fetches is true if the node fetches the specs of its works. An agent of an earlier version needs them in the list.
	fetches bool
	// slurm is true for the agent of a Slurm fleet, which tests the fleet's pools.
	slurm bool

	reported chan []Key // the works in the node's newest report
	failed   chan error // the reader's result
	lastSent []byte     // the last desired works, nil before the first
}

// Serve runs a stream until it ends or the same node opens a newer one.
func (a *Agents) Serve(stream agentStream) error {
	ctx := stream.Context()
	hello, fetches, err := a.hello(stream)
	if err != nil {
		return err
	}
	number, err := a.Nodes.Open(ctx, hello)
	if err != nil {
		return err
	}
	s := &session{
		Agents: a, beat: fleet.Beat{NodeID: hello.NodeID, Session: number}, stream: stream, fetches: fetches, slurm: hello.RunsOn == fleet.KindSlurm,
		reported: make(chan []Key, 1), failed: make(chan error, 1),
	}
	welcome := &jobsv1.Welcome{HeartbeatS: int32(max(1, a.Heartbeat/time.Second))}
	if err := stream.Send(&jobsv1.ConnectResponse{Message: &jobsv1.ConnectResponse_Welcome{Welcome: welcome}}); err != nil {
		return fmt.Errorf("send the welcome to a node: %w", err)
	}
	// The reader stops when this handler returns, because that cancels the stream's context.
	go func() { s.failed <- s.read(ctx) }()
	return s.sendLoop(ctx)
}

// hello reads the first message. The result fetches is true if the node fetches the specs of its works.
func (a *Agents) hello(stream agentStream) (h fleet.Hello, fetches bool, err error) {
	first, err := stream.Recv()
	if err != nil {
		return fleet.Hello{}, false, fmt.Errorf("read the hello of a node: %w", err)
	}
	m := first.GetHello()
	if m == nil {
		return fleet.Hello{}, false, fault.New(fault.Refused, "hello", "the first message of a stream must be hello")
	}
	caller := authn.CallerOf(stream.Context())
	if caller.Kind != authn.KindAgent || caller.Subject != m.GetNodeId() {
		return fleet.Hello{}, false, fault.New(fault.Forbidden, "node", "the client certificate does not belong to node %s", m.GetNodeId())
	}
	slurm, err := fleet.SlurmFromProto(m.GetSlurm())
	if err != nil {
		return fleet.Hello{}, false, err
	}
	i := m.GetInventory()
	return fleet.Hello{
		NodeID: m.GetNodeId(), Incarnation: m.GetIncarnation(), Drivers: append([]string{}, m.GetDrivers()...),
		Boundary: fleet.BoundaryFromProto(m.GetBoundary()), Runtimes: fleet.Runtimes(m.GetPythons(), m.GetBuildsEnvironments()),
		Inventory: fleet.Inventory{
			CPUs: int(i.GetCpus()), MemoryBytes: i.GetMemoryBytes(), GPUs: int(i.GetGpus()),
			Limits: i.GetLimits(), Version: i.GetVersion(),
		},
		RunsOn: fleet.RunsOnFromProto(m.GetRunsOn()), Slurm: slurm,
	}, m.GetFetchesWorks(), nil
}

// read handles the messages of the node until the stream ends.
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
		if report := m.GetHeartbeat().GetSlurm(); report != nil && s.slurm {
			if err := s.reportSlurm(ctx, report); err != nil {
				return err
			}
		}
		if m.GetObserved() == nil {
			continue
		}
		if err := s.observe(ctx, m.GetObserved()); err != nil {
			return err
		}
	}
}

func (s *session) reportSlurm(ctx context.Context, m *jobsv1.SlurmReport) error {
	report, err := fleet.SlurmFromProto(m)
	if err != nil {
		return err
	}
	return s.Nodes.ReportSlurm(ctx, s.beat, report)
}

func (s *session) observe(ctx context.Context, m *jobsv1.ObservedWorks) error {
	if err := s.current(ctx); err != nil {
		return err
	}
	report := make([]Observed, 0, len(m.GetWorks()))
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
	case <-s.reported: // drop an older report that was not read
	default:
	}
	s.reported <- keys
	return nil
}

// sendLoop sends the desired works to the node when they change and with every heartbeat.
func (s *session) sendLoop(ctx context.Context) error {
	changed := s.Hub.Wait(db.NodeTopic(s.beat.NodeID))
	defer changed.Close()
	beat := s.Clock.NewTicker(s.Heartbeat)
	defer beat.Stop()
	var has []Key
	for always := true; ; {
		if err := s.sendDesired(ctx, has, always); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.failed:
			return err
		case has = <-s.reported:
			always = false
		case <-changed.C:
			always = false
		case <-beat.C():
			always = true
		}
	}
}

func (s *session) sendDesired(ctx context.Context, has []Key, always bool) error {
	if err := s.current(ctx); err != nil {
		return err
	}
	wanted, err := s.Works.OnNode(ctx, s.Pool, s.beat.NodeID)
	if err != nil {
		return err
	}
	m := &jobsv1.DesiredWorks{Works: desired(wanted, has), IngestEndpoint: s.IngestEndpoint()}
	if !s.fetches {
		if m.Works, err = s.withSpecs(ctx, m.GetWorks()); err != nil {
			return err
		}
	}
	if m.Pools, err = s.pools(ctx); err != nil {
		return err
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the desired works of a node: %w", err)
	}
	if !always && s.lastSent != nil && string(raw) == string(s.lastSent) {
		return nil
	}
	if err := s.stream.Send(&jobsv1.ConnectResponse{Message: &jobsv1.ConnectResponse_Desired{Desired: m}}); err != nil {
		return fmt.Errorf("send the desired works to a node: %w", err)
	}
	s.lastSent = append([]byte{}, raw...)
	return nil
}

// pools returns the pools that the agent of a Slurm fleet should test.
func (s *session) pools(ctx context.Context) ([]*jobsv1.DesiredPool, error) {
	if !s.slurm {
		return nil, nil
	}
	set, err := s.Fleets.SlurmPools(ctx, s.Pool, s.beat.NodeID)
	if err != nil {
		return nil, err
	}
	pools := make([]*jobsv1.DesiredPool, len(set))
	for i, p := range set {
		pools[i] = &jobsv1.DesiredPool{Pool: p.Name, Slurm: fleet.SlurmPoolToProto(p.Slurm)}
	}
	return pools, nil
}

// desired returns the works that the node should have, and an entry with DESIRED_GONE for every other work that the
// node reported. The works have no specs.
func desired(wanted []*Work, has []Key) []*jobsv1.Work {
	works := make([]*jobsv1.Work, 0, len(wanted))
	named := make(map[string]bool, len(wanted))
	for _, w := range wanted {
		works = append(works, headToProto(w))
		named[w.ID] = true
	}
	for _, k := range has {
		if !named[k.ID] {
			works = append(works, gone(k))
		}
	}
	return works
}

// withSpecs adds the specs for an agent of an earlier version. It returns an error that names the remedy if such an
// agent cannot receive the list.
func (s *session) withSpecs(ctx context.Context, heads []*jobsv1.Work) ([]*jobsv1.Work, error) {
	works := make([]*jobsv1.Work, 0, len(heads))
	size := 0
	for _, m := range heads {
		if m.GetKind() != jobsv1.WorkKind_WORK_KIND_UNSPECIFIED {
			w, err := s.Works.Get(ctx, s.Pool, m.GetWorkId())
			if fault.Is(err, fault.Absent) {
				continue // deleted since the list was read
			}
			if err != nil {
				return nil, err
			}
			if m, err = toProto(w, s.IngestEndpoint()); err != nil {
				return nil, err
			}
		}
		works = append(works, m)
		size += proto.Size(m)
	}
	if size > rpc.MaxMessage-listReserve {
		return nil, fault.New(fault.Refused, "agent_outdated",
			"the works of node %s need %d bytes in one message, which is too large; update the agent, so that it fetches each work separately",
			s.beat.NodeID, size)
	}
	return works, nil
}

// listReserve is the part of a message, in bytes, that is kept free for the length prefixes of the works and for all
// other fields.
const listReserve = 64 << 10

// current returns a conflict if the node has opened a newer stream.
func (s *session) current(ctx context.Context) error {
	number, err := s.Nodes.Session(ctx, s.beat.NodeID)
	if err != nil {
		return err
	}
	if number != s.beat.Session {
		return fault.New(fault.Conflict, "superseded", "node %s has opened a newer stream", s.beat.NodeID)
	}
	return nil
}
