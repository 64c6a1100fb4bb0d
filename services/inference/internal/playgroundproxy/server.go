package playgroundproxy

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	inferencev1 "github.com/signalbox-dev/signalbox/gen/signalbox/inference/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/inference/internal/routing"
)

// Registry implements Sessions with the registry's peer API.
type Registry struct {
	Client registrypeerv1.PlaygroundPeerServiceClient
}

// Admit implements Sessions.
func (r *Registry) Admit(ctx context.Context, sessionID string, target int32) (Admitted, error) {
	out, err := r.Client.AdmitCall(ctx, &registrypeerv1.AdmitCallRequest{PlaygroundId: sessionID, Target: target})
	if err != nil {
		return Admitted{}, err
	}
	return Admitted{
		Replica: routing.ReadReplica(out.GetReplica()), ExpiresAt: out.GetExpiresAt().AsTime(), UserID: out.GetUserId(), Username: out.GetUsername(),
	}, nil
}

// Keep implements Sessions.
func (r *Registry) Keep(ctx context.Context, sessionID string) (time.Time, error) {
	out, err := r.Client.KeepSession(ctx, &registrypeerv1.KeepSessionRequest{PlaygroundId: sessionID})
	return out.GetExpiresAt().AsTime(), err
}

// See implements Sessions.
func (r *Registry) See(ctx context.Context, sessionID string) error {
	_, err := r.Client.SeeSession(ctx, &registrypeerv1.SeeSessionRequest{PlaygroundId: sessionID})
	return err
}

// Server implements TranscriptService.
type Server struct {
	inferencev1.UnimplementedTranscriptServiceServer

	Sessions Sessions
	Store    *Store
}

// maxPage is the maximum total size of the bodies on one page, in bytes.
const maxPage = 2 << 20

// ListTurns implements TranscriptService. It lists the calls of a session, oldest first. All bodies of a page share
// maxPage, so they are cut shorter on a page with more calls.
func (s *Server) ListTurns(ctx context.Context, in *inferencev1.ListTurnsRequest) (*inferencev1.ListTurnsResponse, error) {
	if err := request.ID(id.Playground, "playground_id", in.GetPlaygroundId()); err != nil {
		return nil, err
	}
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	if err := s.Sessions.See(ctx, in.GetPlaygroundId()); err != nil {
		return nil, err
	}
	found, err := s.Store.List(ctx, in.GetPlaygroundId(), p)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out, room := &inferencev1.ListTurnsResponse{}, min(maxKept, maxPage/(2*max(1, len(found))))
	for _, t := range found {
		out.Turns = append(out.Turns, t.proto(room))
	}
	return out, request.SetMore(ctx, more)
}

func (t *Turn) proto(room int) *inferencev1.Turn {
	input, inputCut := short(t.Request, room)
	output, outputCut := short(t.Response, room)
	return &inferencev1.Turn{
		Id: t.ID, Target: t.Target, At: timestamppb.New(t.At), Username: t.Username, Method: t.Method, Path: t.Path, Status: t.Status,
		Outcome: t.Outcome, Request: input, RequestCut: t.RequestCut || inputCut, Response: output, ResponseCut: t.ResponseCut || outputCut,
		DurationMs: t.Duration,
	}
}

func short(s string, room int) (string, bool) {
	if len(s) <= room {
		return s, false
	}
	return strings.ToValidUTF8(s[:room], ""), true
}
