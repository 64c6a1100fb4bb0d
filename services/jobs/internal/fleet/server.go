package fleet

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idem"
	"github.com/signalbox-dev/signalbox/platform/page"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Server answers FleetService.
type Server struct {
	jobsv1.UnimplementedFleetServiceServer
	Registrar *Registrar
	Once      *idem.Once
	// PublicURL and AgentAddress are told to those who join. Where AgentAddress is empty no other host can.
	PublicURL    func() string
	AgentAddress func() string
	Heartbeat    time.Duration
}

// ListFleets lists the fleets by name.
func (s *Server) ListFleets(ctx context.Context, req *jobsv1.ListFleetsRequest) (*jobsv1.ListFleetsResponse, error) {
	p, err := request.Page(req.Limit, req.Offset)
	if err != nil {
		return nil, err
	}
	fleets, err := s.Registrar.Store.List(ctx, s.Registrar.Pool, p)
	if err != nil {
		return nil, err
	}
	fleets, more := page.Cut(fleets, p)
	resp := &jobsv1.ListFleetsResponse{}
	for _, f := range fleets {
		resp.Fleets = append(resp.Fleets, fleetToProto(f))
	}
	return resp, request.SetMore(ctx, more)
}

// GetFleet answers one fleet.
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
		idem.Set(resp, fleetToProto(f))
		return nil
	})
	return resp, err
}

// CreateJoinToken mints a join token. A repeat under the same key shows the row without the token. No token is
// given to a host that could not connect once it has joined.
func (s *Server) CreateJoinToken(ctx context.Context, req *jobsv1.CreateJoinTokenRequest) (*jobsv1.JoinToken, error) {
	if err := request.ID(id.Fleet, "fleet_id", req.GetFleetId()); err != nil {
		return nil, err
	}
	if s.AgentAddress() == "" {
		return nil, fault.New(fault.Unconfigured, "agent_listener",
			"agents of other hosts have no way in: set SERVICE_JOBS_AGENT_LISTEN and SERVICE_JOBS_AGENT_ADDRESS")
	}
	ttl, uses := DefaultTTL, DefaultUses
	if req.TtlS != nil {
		ttl = time.Duration(req.GetTtlS()) * time.Second
	}
	if req.MaxUses != nil {
		uses = int(req.GetMaxUses())
	}
	resp := &jobsv1.JoinToken{}
	var shown string
	err := s.Once.Do(ctx, jobsv1.FleetService_CreateJoinToken_FullMethodName, req, resp, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := s.Registrar.Store.Get(ctx, tx, req.GetFleetId()); err != nil {
			return err
		}
		t, tok, err := s.Registrar.Mint(ctx, tx, req.GetFleetId(), ttl, uses)
		if err != nil {
			return err
		}
		shown = tok.Reveal()
		idem.Set(resp, &jobsv1.JoinToken{Id: t.ID, FleetId: t.FleetID, ExpiresAt: timestamppb.New(t.ExpiresAt)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if shown != "" {
		resp.Token = &shown
		resp.Command = joinCommand(s.PublicURL(), shown)
	}
	return resp, nil
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
	p, err := request.Page(req.Limit, req.Offset)
	if err != nil {
		return nil, err
	}
	nodes, err := s.Registrar.Store.Nodes(ctx, s.Registrar.Pool, p)
	if err != nil {
		return nil, err
	}
	nodes, more := page.Cut(nodes, p)
	resp := &jobsv1.ListNodesResponse{}
	for _, n := range nodes {
		resp.Nodes = append(resp.Nodes, nodeToProto(n))
	}
	return resp, request.SetMore(ctx, more)
}
