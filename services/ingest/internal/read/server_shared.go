package read

import (
	"context"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// GetRunMetrics implements RunDataPeerService.
func (s *PeerServer) GetRunMetrics(
	ctx context.Context, in *ingestpeerv1.GetRunMetricsRequest,
) (*ingestpeerv1.GetRunMetricsResponse, error) {
	p := request.Page{Limit: int(in.GetLimit()), Offset: int(in.GetOffset())}
	series, more, err := s.Metrics.List(ctx, in.GetRunId(), in.GetKeys(), p)
	if err != nil {
		return nil, err
	}
	out := &ingestpeerv1.GetRunMetricsResponse{More: more}
	for _, one := range series {
		out.Series = append(out.Series, seriesProto(&one))
	}
	return out, nil
}

// GetRunHparams implements RunDataPeerService.
func (s *PeerServer) GetRunHparams(
	ctx context.Context, in *ingestpeerv1.GetRunHparamsRequest,
) (*ingestpeerv1.GetRunHparamsResponse, error) {
	params, err := s.Hparams.Get(ctx, in.GetRunId())
	if err != nil {
		return nil, err
	}
	return &ingestpeerv1.GetRunHparamsResponse{Params: params}, nil
}

// GetRunSamples implements RunDataPeerService.
func (s *PeerServer) GetRunSamples(
	ctx context.Context, in *ingestpeerv1.GetRunSamplesRequest,
) (*ingestpeerv1.GetRunSamplesResponse, error) {
	p := request.Page{Limit: int(in.GetLimit()), Offset: int(in.GetOffset())}
	samples, more, err := s.Validations.Samples(ctx, in.GetRunId(), in.Step, p)
	if err != nil {
		return nil, err
	}
	return &ingestpeerv1.GetRunSamplesResponse{Samples: sampleProtos(samples), More: more}, nil
}
