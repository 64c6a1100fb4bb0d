package run

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

// WatchRuns sends the changes of the runs that ListRuns lists for the same filters and caller, as tablefeed describes. It
// ends only with an error.
func (s *Server) WatchRuns(req *jobsv1.WatchRunsRequest, stream grpc.ServerStreamingServer[jobsv1.WatchRunsResponse]) error {
	filter, err := filterFromProto(req)
	if err != nil {
		return err
	}
	filter.Protected = req.Protected
	return s.Tables.Watch(stream.Context(), req.GetAfter(), filter.Feed(), &runsTable{stream: stream})
}

// runsTable is a stream of WatchRuns.
type runsTable struct {
	stream grpc.ServerStreamingServer[jobsv1.WatchRunsResponse]
}

func (t *runsTable) Open() error { return t.stream.SendHeader(metadata.MD{}) }

func (t *runsTable) Row(eventID int64, r *Run) error {
	return t.stream.Send(&jobsv1.WatchRunsResponse{Seq: eventID, Event: &jobsv1.WatchRunsResponse_Run{Run: ToProto(r)}})
}

func (t *runsTable) Gone(eventID int64, runID string) error {
	return t.stream.Send(&jobsv1.WatchRunsResponse{Seq: eventID, Event: &jobsv1.WatchRunsResponse_Gone{Gone: &jobsv1.GoneRun{Id: runID}}})
}

func (t *runsTable) Reset(eventID int64, reason string) error {
	return t.stream.Send(&jobsv1.WatchRunsResponse{Seq: eventID, Event: &jobsv1.WatchRunsResponse_Reset_{Reset_: &jobsv1.RunsReset{Reason: reason}}})
}
