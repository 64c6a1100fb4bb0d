package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/emptypb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// CreateJoinToken mints a join token. A repeat with the same idempotency key returns the row without the token. It fails
// if there is no agent listener, because a node that joined could not connect.
func (s *Server) CreateJoinToken(ctx context.Context, req *jobsv1.CreateJoinTokenRequest) (*jobsv1.JoinToken, error) {
	if err := request.ID(id.Fleet, "fleet_id", req.GetFleetId()); err != nil {
		return nil, err
	}
	if s.AgentAddress() == "" {
		return nil, fault.New(fault.Unconfigured, "agent_listener",
			"agents on other hosts cannot connect; set SERVICE_JOBS_AGENT_LISTEN and SERVICE_JOBS_AGENT_ADDRESS")
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
		idempotency.Set(resp, tokenToProto(t, t.CreatedAt))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if shown != "" {
		resp.Token = &shown
		resp.Command = joinCommand(s.PublicURL())
	}
	return resp, nil
}

// ListJoinTokens lists the join tokens of a fleet.
func (s *Server) ListJoinTokens(ctx context.Context, req *jobsv1.ListJoinTokensRequest) (*jobsv1.ListJoinTokensResponse, error) {
	if err := request.ID(id.Fleet, "fleet_id", req.GetFleetId()); err != nil {
		return nil, err
	}
	p, err := request.ReadPage(req.Limit, req.Offset)
	if err != nil {
		return nil, err
	}
	r := s.Registrar
	if _, err := r.Store.Get(ctx, r.Pool, req.GetFleetId()); err != nil {
		return nil, err
	}
	tokens, err := r.Store.Tokens(ctx, r.Pool, req.GetFleetId(), p)
	if err != nil {
		return nil, err
	}
	now, err := pg.Now(ctx, r.Pool)
	if err != nil {
		return nil, err
	}
	tokens, more := request.CutPage(tokens, p)
	resp := &jobsv1.ListJoinTokensResponse{}
	for _, t := range tokens {
		resp.JoinTokens = append(resp.JoinTokens, tokenToProto(t, now))
	}
	return resp, request.SetMore(ctx, more)
}

// RevokeJoinToken revokes a join token.
func (s *Server) RevokeJoinToken(ctx context.Context, req *jobsv1.RevokeJoinTokenRequest) (*emptypb.Empty, error) {
	if err := request.ID(id.Fleet, "fleet_id", req.GetFleetId()); err != nil {
		return nil, err
	}
	if err := request.ID(id.JoinToken, "join_token_id", req.GetJoinTokenId()); err != nil {
		return nil, err
	}
	err := pg.InTx(ctx, s.Registrar.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := s.Registrar.Store.Get(ctx, tx, req.GetFleetId()); err != nil {
			return err
		}
		return s.Registrar.Revoke(ctx, tx, req.GetFleetId(), req.GetJoinTokenId())
	})
	if err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

// joinCommand returns the shell command that an operator runs on the host that joins. The command reads the token from
// standard input: a token in the line would remain in the shell's history, and every user of a host can read the arguments
// of its processes.
func joinCommand(server string) string {
	return fmt.Sprintf("signalbox-agent join --server %s --join-token-file -", shellWord(server))
}

// shellWord quotes s unless a shell reads it as one plain word.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@%+=,", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
