package reporting_test

import (
	"context"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/reporting"
)

// closed are the runs whose closing was queued.
type closed []string

func (c *closed) CloseRun(_ context.Context, _ pgx.Tx, runID string) error {
	*c = append(*c, runID)
	return nil
}

// noJobs is the Reporter of runs without a job.
type noJobs struct{ reporting.Reporter }

func (noJobs) Report(_ context.Context, runID string, _ int, _, _ string) (bool, error) {
	return false, fault.Absentf("run", runID)
}

func (noJobs) Register(_ context.Context, runID string, _ job.Checkpoint) error {
	return fault.Absentf("run", runID)
}

func (noJobs) Next(_ context.Context, runID string, _ int) (job.PendingSignal, error) {
	return job.PendingSignal{}, fault.Absentf("run", runID)
}

type projects struct{}

func (projects) GetProject(_ context.Context, req *authpeerv1.GetProjectRequest, _ ...grpc.CallOption) (*authpeerv1.Project, error) {
	key := req.GetProject()
	if key == "none" {
		return nil, fault.Absentf("project", key)
	}
	return &authpeerv1.Project{Id: "prj_" + key, Key: key, Visibility: map[string]string{"default": "all", "open": "all"}[key], Archived: key == "old"}, nil
}
