package jobs

import (
	"google.golang.org/grpc"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	searchv1 "github.com/signalbox-dev/signalbox/gen/signalbox/search/v1"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/runsearch"
)

// Register registers the service's gRPC services.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	jobsv1.RegisterJobServiceServer(r, s.jobs)
	jobsv1.RegisterRunServiceServer(r, s.runs)
	jobsv1.RegisterRunSearchServiceServer(r, s.searches)
	jobsv1.RegisterOutsideRunServiceServer(r, s.reports)
	searchv1.RegisterSearchServiceServer(r, &runsearch.FindServer{Pool: s.deps.Pool})
	jobsv1.RegisterDeletionServiceServer(r, s.deletion)
	jobsv1.RegisterFleetServiceServer(r, s.fleets)
	jobsv1.RegisterClusterServiceServer(r, s.nodes)
	jobsv1.RegisterHardwareServiceServer(r, s.series)
	jobsv1.RegisterAgentServiceServer(r, s.agents)
	jobsv1.RegisterLeaseServiceServer(r, s.leases)
	jobsv1.RegisterQuotaServiceServer(r, s.quotas)
	jobsv1.RegisterShareServiceServer(r, s.shares)
	jobsv1.RegisterSharedServiceServer(r, s.shared)
	jobspeerv1.RegisterRunPeerServiceServer(r, s.runPeer)
	jobspeerv1.RegisterRunLineagePeerServiceServer(r, s.lineage)
	jobspeerv1.RegisterQuotaPeerServiceServer(r, s.quotaPeer)
	jobspeerv1.RegisterWorkPeerServiceServer(r, s.workPeer)
	commonpeerv1.RegisterOwnerPeerServiceServer(r, s.ownerPeer)
}
