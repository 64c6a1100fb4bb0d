package traffic

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/types/known/timestamppb"

	inferencev1 "github.com/signalbox-dev/signalbox/gen/signalbox/inference/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Owner states who owns a deployment and who may see it.
type Owner struct{ UserID, ProjectID, Visibility string }

// Server implements TrafficService.
type Server struct {
	inferencev1.UnimplementedTrafficServiceServer

	Store *Store
	// Owner returns the owner of a deployment from the current snapshot; ok is false if the snapshot has no such
	// deployment. Without a valid lease it returns an error that does not state whether the deployment exists.
	Owner func(deploymentID string) (o Owner, ok bool, err error)
	// Stored returns the owner of a deployment from the registry, even if the deployment is deleted.
	Stored func(ctx context.Context, deploymentID string) (Owner, error)
	Clock  clock.Clock
	Reads  *Reads
}

// Reads limits how many requests may read recorded calls at the same time. Each of them can read many rows. Further
// requests wait without a connection to the database, so that the recorder always gets a connection.
type Reads struct{ slots *semaphore.Weighted }

const (
	// maxReads is less than half of the database connections of a service.
	maxReads = 3
	// readWait is how long a request waits for its turn.
	readWait = 10 * time.Second
)

// NewReads returns a Reads with no request in progress.
func NewReads() *Reads { return &Reads{slots: semaphore.NewWeighted(maxReads)} }

func (r *Reads) do(ctx context.Context, read func() error) error {
	wait, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	if r.slots.Acquire(wait, 1) != nil {
		return fault.New(fault.Unavailable, "traffic_busy", "too many requests read recorded calls; repeat the request later")
	}
	defer r.slots.Release(1)
	return read()
}

// seen returns an error unless the caller may see the deployment, or could see it before it was deleted. A deployment
// that the caller may not see is reported as missing. The registry is called in both cases, so that the response time
// does not show whether the deployment exists.
func (s *Server) seen(ctx context.Context, deploymentID string) error {
	if err := request.ID(id.Deployment, "deployment_id", deploymentID); err != nil {
		return err
	}
	scope := authn.ScopeOf(ctx)
	o, ok, err := s.Owner(deploymentID)
	if err != nil || ok && scope.Sees(o.UserID, o.ProjectID, o.Visibility) {
		return err
	}
	if o, err = s.Stored(ctx, deploymentID); err != nil {
		return err
	}
	if !scope.Sees(o.UserID, o.ProjectID, o.Visibility) {
		return fault.Absentf("deployment", deploymentID)
	}
	return nil
}

// ListTraffic implements TrafficService.
func (s *Server) ListTraffic(ctx context.Context, in *inferencev1.ListTrafficRequest) (*inferencev1.ListTrafficResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	at, last, err := request.ReadTimePosition(id.Request, in.After)
	if err != nil {
		return nil, err
	}
	if err := s.seen(ctx, in.GetDeploymentId()); err != nil {
		return nil, err
	}
	var rows []*Call
	err = s.Reads.do(ctx, func() (err error) {
		rows, err = s.Store.List(ctx, in.GetDeploymentId(), Filter{
			Token: in.GetToken(), Outcome: in.GetOutcome(), Status: in.GetStatus(), From: request.TimeOf(in.GetFrom()), To: request.TimeOf(in.GetTo()),
			Revision: in.Revision, MinLatency: in.MinLatencyMs, AfterTime: at, After: last,
		}, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	calls, more := request.CutPage(rows, p)
	out := &inferencev1.ListTrafficResponse{}
	for _, call := range calls {
		out.Calls = append(out.Calls, call.proto())
	}
	return out, request.SetNextAfter(ctx, more, calls, func(c **Call) string { return request.TimePosition((*c).At, (*c).RequestID) })
}

// GetCall implements TrafficService.
func (s *Server) GetCall(ctx context.Context, in *inferencev1.GetCallRequest) (*inferencev1.Call, error) {
	if err := request.ID(id.Request, "request_id", in.GetRequestId()); err != nil {
		return nil, err
	}
	if err := s.seen(ctx, in.GetDeploymentId()); err != nil {
		return nil, err
	}
	c, err := s.Store.Get(ctx, in.GetDeploymentId(), in.GetRequestId())
	if err != nil {
		return nil, err
	}
	return c.proto(), nil
}

const (
	seriesSpan  = time.Hour
	seriesMost  = 31 * 24 * time.Hour
	seriesStep  = time.Minute
	seriesSteps = 1000
)

// GetMetrics implements TrafficService.
func (s *Server) GetMetrics(ctx context.Context, in *inferencev1.GetMetricsRequest) (*inferencev1.DeploymentMetrics, error) {
	from, to, step, err := s.span(in)
	if err != nil {
		return nil, err
	}
	if err := s.seen(ctx, in.GetDeploymentId()); err != nil {
		return nil, err
	}
	var points []Point
	err = s.Reads.do(ctx, func() (err error) {
		points, err = s.Store.Series(ctx, in.GetDeploymentId(), Filter{Token: in.GetToken(), From: &from, To: &to, Revision: in.Revision}, step)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &inferencev1.DeploymentMetrics{
		DeploymentId: in.GetDeploymentId(), From: timestamppb.New(from), To: timestamppb.New(to), StepS: int32(step / time.Second),
	}
	for _, p := range points {
		out.Points = append(out.Points, p.proto())
	}
	return out, nil
}

// span returns the time range of the requested series and its step. The range is widened to the resolution of the step,
// and may therefore have one step more than seriesSteps.
func (s *Server) span(in *inferencev1.GetMetricsRequest) (from, to time.Time, step time.Duration, err error) {
	to, step = s.Clock.Now(), seriesStep
	if in.GetTo() != nil {
		to = in.GetTo().AsTime()
	}
	from = to.Add(-seriesSpan)
	if in.GetFrom() != nil {
		from = in.GetFrom().AsTime()
	}
	if in.StepS != nil {
		step = time.Duration(in.GetStepS()) * time.Second
	}
	bad := func(field, msg string) error { return fault.InvalidFields(fault.At(fault.TypeValue, msg, field)) }
	switch span := to.Sub(from); {
	case span <= 0:
		err = bad("from", "from should be before to")
	case span > seriesMost:
		err = bad("from", "from should be at most 31 days before to")
	case span > seriesSteps*step:
		err = bad("step_s", fmt.Sprintf("step_s should make at most %d steps between from and to", seriesSteps))
	}
	from, to = widen(from, to, resolution(step))
	return from, to, step, err
}

func (p Point) proto() *inferencev1.MetricsPoint {
	return &inferencev1.MetricsPoint{
		At: timestamppb.New(p.At), Calls: p.Calls, Ok: p.OK, ClientClosed: p.ClientClosed, Failed: p.Calls - p.OK - p.ClientClosed,
		ClientError:  p.ClientError,
		PromptTokens: p.PromptTokens, CompletionTokens: p.CompletionTokens, RequestBytes: p.RequestBytes, ResponseBytes: p.ResponseBytes,
		TtftP50Ms: p.TTFT50, TtftP95Ms: p.TTFT95, DurationP50Ms: p.Duration50, DurationP95Ms: p.Duration95,
	}
}

func (c *Call) proto() *inferencev1.Call {
	return &inferencev1.Call{
		RequestId: c.RequestID, At: timestamppb.New(c.At), DeploymentId: c.DeploymentID, RevisionId: c.RevisionID,
		RevisionNumber: c.RevisionNumber, TokenId: c.TokenID, TokenName: c.TokenName, ReplicaId: c.ReplicaID,
		Method: c.Method, Path: c.Path, Status: c.Status, Outcome: c.Outcome, Stream: c.Stream,
		RequestedModel: c.RequestedModel, ResponseModel: c.ResponseModel, PromptTokens: c.PromptTokens,
		CompletionTokens: c.CompletionTokens, UsageSource: c.UsageSource, FinishReason: c.FinishReason, TtftMs: c.TTFT,
		DurationMs: c.Duration, RequestBytes: c.RequestBytes, ResponseBytes: c.ResponseBytes,
		RequestFrames: c.RequestFrames, ResponseFrames: c.ResponseFrames,
	}
}
