package read

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
)

// GetEnvironment implements RunDataService. If the run, or the requested attempt, reported no environment, the response
// contains only the id of the run.
func (s *Server) GetEnvironment(ctx context.Context, in *ingestv1.GetEnvironmentRequest) (*ingestv1.Environment, error) {
	id, err := s.Runs.Readable(ctx, in.GetId())
	if err != nil {
		return nil, err
	}
	picture, err := s.Records.Environment(ctx, id, in.Attempt)
	if err != nil || picture == nil {
		return &ingestv1.Environment{RunId: id}, err
	}
	return environmentProto(id, picture)
}

// ListNodes implements RunDataService.
func (s *Server) ListNodes(ctx context.Context, in *ingestv1.ListNodesRequest) (*ingestv1.ListNodesResponse, error) {
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	nodes, more, err := s.Records.Nodes(ctx, id, p)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListNodesResponse{}
	for i := range nodes {
		node, err := nodeProto(&nodes[i])
		if err != nil {
			return nil, err
		}
		out.Nodes = append(out.Nodes, node)
	}
	return out, request.SetMore(ctx, more)
}

// defaultPoints is the maximum number of points per series if the request sets no maximum.
const defaultPoints = 1000

// ListHardware implements RunDataService.
func (s *Server) ListHardware(ctx context.Context, in *ingestv1.ListHardwareRequest) (*ingestv1.ListHardwareResponse, error) {
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	query := metric.HardwareQuery{
		Keys: in.GetKeys(), Node: in.Node, Points: defaultPoints,
		Since: request.TimeOrZero(in.GetSince()), Until: request.TimeOrZero(in.GetUntil()),
	}
	if in.Points != nil {
		query.Points = int(in.GetPoints())
	}
	series, more, err := s.Hardware.List(ctx, id, query, p)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListHardwareResponse{}
	for i := range series {
		out.Series = append(out.Series, hardwareProto(&series[i]))
	}
	return out, request.SetMore(ctx, more)
}

// ListBenchmarks implements RunDataService.
func (s *Server) ListBenchmarks(ctx context.Context, in *ingestv1.ListBenchmarksRequest) (*ingestv1.ListBenchmarksResponse, error) {
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	scores, more, err := s.Scores.List(ctx, id, p)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListBenchmarksResponse{}
	for i := range scores {
		out.Scores = append(out.Scores, scoreProto(&scores[i]))
	}
	return out, request.SetMore(ctx, more)
}

// ListHparamChanges implements RunDataService.
func (s *Server) ListHparamChanges(
	ctx context.Context, in *ingestv1.ListHparamChangesRequest,
) (*ingestv1.ListHparamChangesResponse, error) {
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	changes, more, err := s.Hparams.Changes(ctx, id, p)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListHparamChangesResponse{}
	total := 0
	for i := range changes {
		total += len(changes[i].Value)
	}
	for i := range changes {
		c := &changes[i]
		most := len(c.Value)
		if total > maxText {
			most = maxText / len(changes)
		}
		out.Changes = append(out.Changes, &ingestv1.HparamChange{
			Key: c.Key, Value: shown(c.Value, most), Attempt: c.Attempt,
			ReportedAt: timestamppb.New(c.ReportedAt), ReplacedAt: timestamppb.New(c.ReplacedAt),
		})
	}
	return out, request.SetMore(ctx, more)
}
