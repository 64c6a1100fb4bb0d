package fleet

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/emptypb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Server implements FleetService.
type Server struct {
	jobsv1.UnimplementedFleetServiceServer
	Registrar *Registrar
	Once      *idempotency.Once
	// PublicURL returns the server address that the join command contains. AgentAddress is sent to joining nodes; if it
	// is empty, other hosts cannot join.
	PublicURL    func() string
	AgentAddress func() string
	Heartbeat    time.Duration
}

// ListFleets lists the fleets by name.
func (s *Server) ListFleets(ctx context.Context, req *jobsv1.ListFleetsRequest) (*jobsv1.ListFleetsResponse, error) {
	p, err := request.ReadPage(req.Limit, req.Offset)
	if err != nil {
		return nil, err
	}
	fleets, err := s.Registrar.Store.List(ctx, s.Registrar.Pool, p)
	if err != nil {
		return nil, err
	}
	fleets, more := request.CutPage(fleets, p)
	resp := &jobsv1.ListFleetsResponse{}
	for _, f := range fleets {
		resp.Fleets = append(resp.Fleets, fleetToProto(f))
	}
	return resp, request.SetMore(ctx, more)
}

// GetFleet returns a fleet.
func (s *Server) GetFleet(ctx context.Context, req *jobsv1.GetFleetRequest) (*jobsv1.Fleet, error) {
	if err := request.ID(id.Fleet, "fleet_id", req.GetFleetId()); err != nil {
		return nil, err
	}
	f, err := s.Registrar.Store.Get(ctx, s.Registrar.Pool, req.GetFleetId())
	if err != nil {
		return nil, err
	}
	return fleetToProto(f), nil
}

// CreateFleet registers a fleet.
func (s *Server) CreateFleet(ctx context.Context, req *jobsv1.CreateFleetRequest) (*jobsv1.Fleet, error) {
	resp := &jobsv1.Fleet{}
	err := s.Once.Do(ctx, jobsv1.FleetService_CreateFleet_FullMethodName, req, resp, func(ctx context.Context, tx pgx.Tx) error {
		f, err := s.Registrar.Create(ctx, tx, req.GetName(), kindFromProto(req.GetKind()), req.GetPools())
		if err != nil {
			return err
		}
		idempotency.Set(resp, fleetToProto(f))
		return nil
	})
	return resp, err
}

// UpdateFleet changes a fleet.
func (s *Server) UpdateFleet(ctx context.Context, req *jobsv1.UpdateFleetRequest) (*jobsv1.Fleet, error) {
	if err := request.ID(id.Fleet, "fleet_id", req.GetFleetId()); err != nil {
		return nil, err
	}
	var f *Fleet
	err := pg.InTx(ctx, s.Registrar.Pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		f, err = s.Registrar.Update(ctx, tx, req.GetFleetId(), Change{Name: req.Name, State: req.State, Pools: req.GetPools()})
		return err
	})
	if err != nil {
		return nil, err
	}
	return fleetToProto(f), nil
}

// DeleteFleet removes a fleet. It fails if the fleet still runs work.
func (s *Server) DeleteFleet(ctx context.Context, req *jobsv1.DeleteFleetRequest) (*emptypb.Empty, error) {
	if err := request.ID(id.Fleet, "fleet_id", req.GetFleetId()); err != nil {
		return nil, err
	}
	err := pg.InTx(ctx, s.Registrar.Pool, func(ctx context.Context, tx pgx.Tx) error {
		return s.Registrar.Delete(ctx, tx, req.GetFleetId())
	})
	if err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

// JoinFleet exchanges a join token and a certificate request for a node certificate.
func (s *Server) JoinFleet(ctx context.Context, req *jobsv1.JoinFleetRequest) (*jobsv1.JoinFleetResponse, error) {
	joined, err := s.Registrar.Join(ctx, req.GetToken(), req.GetHostname(), []byte(req.GetCertificateRequest()),
		inventoryFromProto(req.GetInventory()))
	if err != nil {
		return nil, err
	}
	return &jobsv1.JoinFleetResponse{
		NodeId: joined.NodeID, Certificate: string(joined.CertPEM), CaCertificate: string(joined.CAPEM),
		AgentAddress: s.AgentAddress(), HeartbeatS: int32(max(1, s.Heartbeat/time.Second)),
	}, nil
}

// ListNodes lists the nodes by name.
func (s *Server) ListNodes(ctx context.Context, req *jobsv1.ListNodesRequest) (*jobsv1.ListNodesResponse, error) {
	p, err := request.ReadPage(req.Limit, req.Offset)
	if err != nil {
		return nil, err
	}
	nodes, err := s.Registrar.Store.Nodes(ctx, s.Registrar.Pool, p)
	if err != nil {
		return nil, err
	}
	nodes, more := request.CutPage(nodes, p)
	resp := &jobsv1.ListNodesResponse{}
	for _, n := range nodes {
		resp.Nodes = append(resp.Nodes, NodeToProto(n))
	}
	return resp, request.SetMore(ctx, more)
}
