package cluster

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

// Server implements ClusterService.
type Server struct {
	jobsv1.UnimplementedClusterServiceServer
	Orders *Orders
}

// GetCluster returns the counts of fleets, nodes, pools and jobs.
func (s *Server) GetCluster(ctx context.Context, _ *jobsv1.GetClusterRequest) (*jobsv1.Cluster, error) {
	sum, err := s.Orders.Store.Sum(ctx, s.Orders.Pool)
	if err != nil {
		return nil, err
	}
	return summaryToProto(sum), nil
}

// ListQueue lists the queued jobs.
func (s *Server) ListQueue(ctx context.Context, req *jobsv1.ListQueueRequest) (*jobsv1.ListQueueResponse, error) {
	p, err := request.ReadPage(req.Limit, req.Offset)
	if err != nil {
		return nil, err
	}
	waiting, err := s.Orders.Store.Queue(ctx, s.Orders.Pool, authn.ScopeOf(ctx), req.GetPool(), p)
	if err != nil {
		return nil, err
	}
	waiting, more := request.CutPage(waiting, p)
	resp := &jobsv1.ListQueueResponse{}
	for i := range waiting {
		resp.Entries = append(resp.Entries, waitingToProto(&waiting[i]))
	}
	return resp, request.SetMore(ctx, more)
}

// GetNode returns a node.
func (s *Server) GetNode(ctx context.Context, req *jobsv1.GetNodeRequest) (*jobsv1.Node, error) {
	if err := request.ID(id.Node, "node_id", req.GetNodeId()); err != nil {
		return nil, err
	}
	n, err := s.Orders.Store.Fleets.Node(ctx, s.Orders.Pool, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	return fleet.NodeToProto(n), nil
}

// DrainNode empties a node.
func (s *Server) DrainNode(ctx context.Context, req *jobsv1.DrainNodeRequest) (*jobsv1.Node, error) {
	mode := modeFromProto(req.GetMode())
	return s.give(ctx, req.GetNodeId(), "node.drain", func(was Order, now time.Time) (Order, error) {
		var deadline *time.Time
		if req.DeadlineS != nil {
			at := now.Add(time.Duration(req.GetDeadlineS()) * time.Second)
			deadline = &at
		}
		return was.Drain(mode, req.GetReason(), deadline), nil
	})
}

// CordonNode excludes a node from new work.
func (s *Server) CordonNode(ctx context.Context, req *jobsv1.CordonNodeRequest) (*jobsv1.Node, error) {
	return s.give(ctx, req.GetNodeId(), "node.cordon", func(was Order, _ time.Time) (Order, error) { return was.Cordon(req.GetReason()) })
}

// UncordonNode ends a cordon or a drain.
func (s *Server) UncordonNode(ctx context.Context, req *jobsv1.UncordonNodeRequest) (*jobsv1.Node, error) {
	return s.give(ctx, req.GetNodeId(), "node.uncordon", func(was Order, _ time.Time) (Order, error) { return was.Uncordon(), nil })
}

// DeleteNode removes a node.
func (s *Server) DeleteNode(ctx context.Context, req *jobsv1.DeleteNodeRequest) (*emptypb.Empty, error) {
	if err := request.ID(id.Node, "node_id", req.GetNodeId()); err != nil {
		return nil, err
	}
	if err := s.Orders.Remove(ctx, req.GetNodeId()); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

// minProcesses is the smallest limit of processes and threads of a pool, except 0. With fewer, jobs do not start.
const minProcesses = 64

// UpdatePool changes the settings of a pool.
func (s *Server) UpdatePool(ctx context.Context, req *jobsv1.UpdatePoolRequest) (*jobsv1.PoolSettings, error) {
	if n := req.GetDefaultProcesses(); n > 0 && n < minProcesses {
		return nil, fault.InvalidFields(fault.At(fault.TypeValue, fmt.Sprintf("must be 0, or at least %d, which a Python process with its libraries needs", minProcesses), "default_processes"))
	}
	set, err := s.Orders.SetPool(ctx, req.GetPool(), func(set Settings) Settings {
		if req.Isolation != nil {
			set.Isolation = req.GetIsolation()
		}
		if req.DefaultMemoryGb != nil {
			set.MemoryGB = int(req.GetDefaultMemoryGb())
		}
		if req.DefaultProcesses != nil {
			set.Processes = int(req.GetDefaultProcesses())
		}
		if req.OnSilence != nil {
			set.OnSilence = req.GetOnSilence()
		}
		if slurm := req.GetSlurm(); slurm != nil {
			set.Slurm = fleet.SlurmPoolFromProto(slurm)
		}
		return set
	})
	if err != nil {
		return nil, err
	}
	return &jobsv1.PoolSettings{
		Pool: req.GetPool(), Isolation: set.Isolation, DefaultMemoryGb: n32(set.MemoryGB), OnSilence: set.OnSilence,
		Slurm: fleet.SlurmPoolToProto(set.Slurm), DefaultProcesses: n32(set.Processes),
	}, nil
}

func (s *Server) give(
	ctx context.Context, nodeID, action string, change func(was Order, now time.Time) (Order, error),
) (*jobsv1.Node, error) {
	if err := request.ID(id.Node, "node_id", nodeID); err != nil {
		return nil, err
	}
	n, err := s.Orders.Give(ctx, nodeID, action, change)
	if err != nil {
		return nil, err
	}
	return fleet.NodeToProto(n), nil
}
