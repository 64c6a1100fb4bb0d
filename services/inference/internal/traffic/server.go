package traffic

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	inferencev1 "github.com/signalbox-dev/signalbox/gen/signalbox/inference/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/page"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Owner is whose a deployment is.
type Owner struct{ UserID, ProjectID, Visibility string }

// Server answers TrafficService.
type Server struct {
	inferencev1.UnimplementedTrafficServiceServer

	Store *Store
	// Owner tells whose a deployment is, from the snapshot in force; without one nobody knows, which is
	// no answer about the deployment.
	Owner func(deploymentID string) (Owner, error)
}

// ListTraffic implements TrafficService.
func (s *Server) ListTraffic(ctx context.Context, in *inferencev1.ListTrafficRequest) (*inferencev1.ListTrafficResponse, error) {
	if err := request.ID(id.Deployment, "deployment_id", in.GetDeploymentId()); err != nil {
		return nil, err
	}
	p, err := request.Page(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	o, err := s.Owner(in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	if !authn.ScopeOf(ctx).Sees(o.UserID, o.ProjectID, o.Visibility) {
		return nil, fault.Absentf("deployment", in.GetDeploymentId())
	}
	rows, err := s.Store.List(ctx, in.GetDeploymentId(), in.GetToken(), p)
	if err != nil {
		return nil, err
	}
	calls, more := page.Cut(rows, p)
	out := &inferencev1.ListTrafficResponse{}
	for _, call := range calls {
		out.Calls = append(out.Calls, call.proto())
	}
	return out, request.SetMore(ctx, more)
}

func (c *Call) proto() *inferencev1.Call {
	return &inferencev1.Call{
		RequestId: c.RequestID, At: timestamppb.New(c.At), DeploymentId: c.DeploymentID, RevisionId: c.RevisionID,
		RevisionNumber: c.RevisionNumber, TokenId: c.TokenID, TokenName: c.TokenName, ReplicaId: c.ReplicaID,
		Method: c.Method, Path: c.Path, Status: c.Status, Outcome: c.Outcome, Stream: c.Stream,
		RequestedModel: c.RequestedModel, ResponseModel: c.ResponseModel, PromptTokens: c.PromptTokens,
		CompletionTokens: c.CompletionTokens, UsageSource: c.UsageSource, FinishReason: c.FinishReason, TtftMs: c.TTFT,
		DurationMs: c.Duration, RequestBytes: c.RequestBytes, ResponseBytes: c.ResponseBytes,
	}
}
