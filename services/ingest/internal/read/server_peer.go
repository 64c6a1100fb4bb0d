package read

import (
	"context"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/evaluation"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// PeerServer implements RunDataPeerService. All fields are required.
type PeerServer struct {
	ingestpeerv1.UnimplementedRunDataPeerServiceServer

	Runs      *run.Runs
	Store     *groupcommit.Committer
	Artifacts *artifact.Store
	// The calling service has already checked that its user may see the run whose data it requests.
	Metrics     *metric.Store
	Hparams     *run.HParamStore
	Validations *evaluation.ValidationStore
}

// GetArtifact implements RunDataPeerService.
func (s *PeerServer) GetArtifact(ctx context.Context, in *ingestpeerv1.GetArtifactRequest) (*ingestpeerv1.GetArtifactResponse, error) {
	a, err := s.Artifacts.Get(ctx, in.GetRunId(), in.GetArtifactId())
	if err != nil {
		return nil, err
	}
	return &ingestpeerv1.GetArtifactResponse{Artifact: artifactProto(a), Uri: a.URI(), Packed: a.Packed()}, nil
}
