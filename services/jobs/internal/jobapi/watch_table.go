package jobapi

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// WatchJobs sends the changes of the jobs that ListJobs lists for the same filters and caller, as tablefeed describes. It
// ends only with an error.
func (s *Server) WatchJobs(req *jobsv1.WatchJobsRequest, stream grpc.ServerStreamingServer[jobsv1.WatchJobsResponse]) error {
	filter, err := filterOf(req)
	if err != nil {
		return err
	}
	ctx := stream.Context()
	return s.Tables.Watch(ctx, req.GetAfter(), filter.Feed(), &jobsTable{ctx: ctx, stream: stream})
}

// jobsTable is a stream of WatchJobs.
type jobsTable struct {
	ctx    context.Context // of the stream
	stream grpc.ServerStreamingServer[jobsv1.WatchJobsResponse]
}

func (t *jobsTable) Open() error { return t.stream.SendHeader(metadata.MD{}) }

func (t *jobsTable) Row(eventID int64, j *job.Job) error {
	m, err := shown(t.ctx, j)
	if err != nil {
		return err
	}
	return t.stream.Send(&jobsv1.WatchJobsResponse{Seq: eventID, Event: &jobsv1.WatchJobsResponse_Job{Job: m}})
}

func (t *jobsTable) Gone(eventID int64, jobID string) error {
	return t.stream.Send(&jobsv1.WatchJobsResponse{Seq: eventID, Event: &jobsv1.WatchJobsResponse_Gone{Gone: &jobsv1.GoneJob{Id: jobID}}})
}

func (t *jobsTable) Reset(eventID int64, reason string) error {
	return t.stream.Send(&jobsv1.WatchJobsResponse{Seq: eventID, Event: &jobsv1.WatchJobsResponse_Reset_{Reset_: &jobsv1.JobsReset{Reason: reason}}})
}
