package assignment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// PeerServer implements WorkPeerService, which the registry uses to run engines.
type PeerServer struct {
	jobspeerv1.UnimplementedWorkPeerServiceServer
	Pool   *pgxpool.Pool
	Works  *Store
	Hub    *pg.NotifyHub
	Clock  clock.Clock
	Fleets fleet.Store
	// Projects looks up the team of a project. The engine's GPUs count against the quota of that team.
	Projects authpeerv1.ProjectServiceClient
	// GiveUp is the time from the loss of a node until its work is given up.
	GiveUp time.Duration
	// Refused counts the engines that CheckPool refuses.
	Refused *fleet.Refusals
}

// PutWork creates or updates an engine's work.
func (s *PeerServer) PutWork(ctx context.Context, req *jobspeerv1.PutWorkRequest) (*jobspeerv1.PutWorkResponse, error) {
	order, err := orderFromProto(req)
	if err != nil {
		return nil, err
	}
	if order.Desired == WantRunning {
		if err := s.checkEngines(ctx, order.Pool); err != nil {
			return nil, err
		}
	}
	if order.TeamID, err = s.team(ctx, order); err != nil {
		return nil, err
	}
	changed, err := s.put(ctx, order)
	if pg.IsUnique(err, "") {
		changed, err = s.put(ctx, order) // another replica has just inserted the row
	}
	if err != nil {
		return nil, err
	}
	return &jobspeerv1.PutWorkResponse{Changed: changed}, nil
}

// team looks up the team of an engine that will hold GPUs, unless the work already has its team. It returns nil if
// there is nothing to look up.
func (s *PeerServer) team(ctx context.Context, o Order) (*string, error) {
	if o.Desired != WantRunning || o.GPUs == 0 {
		return nil, nil
	}
	w, err := s.Works.Head(ctx, s.Pool, o.ID)
	if err == nil && w.TeamID != nil {
		return nil, nil
	}
	if err != nil && !fault.Is(err, fault.Absent) {
		return nil, err
	}
	p, err := s.Projects.GetProject(authn.Background(ctx), &authpeerv1.GetProjectRequest{Project: o.ProjectID})
	if err != nil {
		return nil, fmt.Errorf("look up the team of project %s: %w", o.ProjectID, err)
	}
	team := p.GetTeamId()
	return &team, nil
}

func (s *PeerServer) put(ctx context.Context, o Order) (changed bool, err error) {
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		w, err := s.Works.Lock(ctx, tx, o.ID)
		if fault.Is(err, fault.Absent) {
			if changed = o.Desired == WantRunning; !changed {
				return nil // a work that does not exist is already gone
			}
			return s.Works.Insert(ctx, tx, NewEngine(o, now))
		}
		if err != nil {
			return err
		}
		before, node := w.Key, w.NodeID
		if changed, err = w.Put(o, now); err != nil || !changed {
			return err
		}
		return s.Works.Save(ctx, tx, w, before, node, now)
	})
	return changed, err
}

func orderFromProto(req *jobspeerv1.PutWorkRequest) (Order, error) {
	want, ok := desiredFromProto(req.GetDesired())
	if !ok {
		return Order{}, fault.InvalidFields(fault.At(fault.TypeEnum, "Input should be 'running', 'stopped' or 'gone'", "desired"))
	}
	spec := req.GetEngine()
	if spec == nil {
		spec = &jobsv1.EngineSpec{}
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(spec)
	if err != nil {
		return Order{}, errors.Join(errors.New("encode the spec of an engine"), err)
	}
	o := Order{
		ID: req.GetWorkId(), Generation: req.GetGeneration(), Desired: want, Pool: req.GetPool(), Driver: spec.GetDriver(),
		GPUs: int(spec.GetLimits().GetGpus()), Spec: raw, OwnerID: req.GetOwnerId(), ProjectID: req.GetProjectId(),
		Deadline: request.StorableTime(req.GetDeadline()),
	}
	o.Slots = job.SlotsOf(o.GPUs)
	return o, nil
}

// CodeSlurmEngine is the error code for an engine of a pool that only Slurm fleets serve.
const CodeSlurmEngine = "slurm_engine"

// checkEngines refuses engines of a pool that only Slurm fleets serve.
func (s *PeerServer) checkEngines(ctx context.Context, pool string) error {
	only, err := s.Fleets.OnlySlurm(ctx, s.Pool, pool)
	if err == nil && only {
		return fault.New(fault.Unconfigured, CodeSlurmEngine, "engines do not run on Slurm, and only Slurm fleets serve pool %s; use another pool", pool)
	}
	return err
}

// CheckPool refuses a pool that has nodes, if none of them may run work of the pool, and a pool that only Slurm fleets
// serve.
func (s *PeerServer) CheckPool(ctx context.Context, req *jobspeerv1.CheckPoolRequest) (*jobspeerv1.CheckPoolResponse, error) {
	if err := s.checkEngines(ctx, req.GetPool()); err != nil {
		return nil, err
	}
	now, err := pg.Now(ctx, s.Pool)
	if err != nil {
		return nil, err
	}
	nodes, _, err := s.Fleets.InPool(ctx, s.Pool, req.GetPool(), now.Add(-s.GiveUp))
	if err != nil {
		return nil, err
	}
	if len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n *fleet.Node) bool { return n.Isolates(req.GetPool()) }) {
		s.Refused.Add(ctx, fleet.RefusedEngine)
		return nil, fleet.RefuseIsolation(req.GetPool(), 0, 1)
	}
	return &jobspeerv1.CheckPoolResponse{}, nil
}

// lookAgain is the interval at which a watch polls, in case a wake-up was lost.
const lookAgain = 5 * time.Second

// WatchWorks sends the status of every engine, then a message in which only Synced is set, then each change.
func (s *PeerServer) WatchWorks(_ *jobspeerv1.WatchWorksRequest, stream grpc.ServerStreamingServer[jobspeerv1.WorkStatus]) error {
	ctx := stream.Context()
	changed := s.Hub.Wait(db.EnginesTopic)
	defer changed.Close()
	again := s.Clock.NewTicker(lookAgain)
	defer again.Stop()
	sent := map[string]string{}
	for synced := false; ; synced = true {
		if err := s.sendChanges(ctx, stream, sent); err != nil {
			return err
		}
		if !synced {
			if err := stream.Send(&jobspeerv1.WorkStatus{Synced: true}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed.C:
		case <-again.C():
		}
	}
}

func (s *PeerServer) sendChanges(ctx context.Context, stream grpc.ServerStreamingServer[jobspeerv1.WorkStatus], sent map[string]string) error {
	works, err := s.Works.Engines(ctx, s.Pool)
	if err != nil {
		return err
	}
	for _, w := range works {
		status, err := statusToProto(w)
		if err != nil {
			return err
		}
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(status)
		if err != nil {
			return err
		}
		if sent[w.ID] == string(raw) {
			continue
		}
		if err := stream.Send(status); err != nil {
			return err
		}
		sent[w.ID] = string(raw)
	}
	return nil
}

func statusToProto(w *Work) (*jobspeerv1.WorkStatus, error) {
	observed, err := seenToProto(w.Observed)
	if err != nil {
		return nil, err
	}
	return &jobspeerv1.WorkStatus{
		WorkId: w.ID, Generation: w.Generation, Fence: w.Fence, NodeId: w.NodeID, Waiting: w.Waiting, Observed: observed,
	}, nil
}
