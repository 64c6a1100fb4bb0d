package jobs

import (
	"context"
	"io/fs"
	"time"

	"github.com/riverqueue/river"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/bgjob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/cluster"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/hardware"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobapi"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/lifecycle"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/reporting"
	jobrun "github.com/signalbox-dev/signalbox/services/jobs/internal/run"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/runsearch"
	jobqueue "github.com/signalbox-dev/signalbox/services/jobs/internal/scheduler"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/share"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/tablefeed"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/transfer"
)

// Service is the jobs service. New creates it.
type Service struct {
	cfg       Config
	deps      Deps
	hub       *pg.NotifyHub
	queue     *bgjob.Client
	liveness  *fleet.Liveness
	registrar *fleet.Registrar
	scheduler *jobqueue.Scheduler
	reconcile *lifecycle.Reconciler
	driver    *lifecycle.Driver
	orders    *cluster.Orders
	hardware  *hardware.Copy
	jobTables *tablefeed.Tables[*job.Job]
	runTables *tablefeed.Tables[*jobrun.Run]

	jobs     *jobapi.Server
	runs     *jobrun.Server
	searches *runsearch.Server
	outside  *reporting.Outside
	closer   *jobrun.Closer
	reports  *reporting.Server
	deletion *jobrun.DeleteServer
	// age returns how long ago the service was created.
	age    func() time.Duration
	copier *runsearch.Copier
	fleets *fleet.Server
	nodes  *cluster.Server
	series *hardware.Server
	agents *assignment.AgentServer
	leases *assignment.LeaseServer
	// renewals counts the lease renewals that the lease server handles.
	renewals *assignment.Renewals
	// meters counts the jobs that end and records how long they wait.
	meters *job.Meters

	quotas *quota.Server
	shares *share.Server
	shared *share.PublicServer

	runPeer   *reporting.PeerServer
	lineage   *jobrun.LineageServer
	quotaPeer *quota.PeerServer
	workPeer  *assignment.PeerServer
	ownerPeer *transfer.Server
}

// Migrations returns the goose files of the jobs schema.
func Migrations() fs.FS { return db.Migrations }

// New assembles the service. It starts no goroutine.
func New(ctx context.Context, cfg Config, d Deps) (*Service, error) {
	s := &Service{cfg: cfg, deps: d, hub: pg.NewNotifyHub(), age: clock.Monotonic()}
	workers := river.NewWorkers()
	s.closer = &jobrun.Closer{Pool: d.Pool, Ingest: d.RunData, Clock: d.Clock}
	if err := river.AddWorkerSafely(workers, s.closer); err != nil {
		return nil, err
	}
	if err := river.AddWorkerSafely(workers, &jobrun.Deleter{Ingest: d.RunData, Clock: d.Clock}); err != nil {
		return nil, err
	}
	settler := &hardware.Settler{
		Pool: d.Pool, Hub: s.hub, Clock: d.Clock, Audit: audit.NewLog(d.Clock, d.IDs, Name), Events: event.NewLog(d.Clock, d.IDs, Name),
	}
	if err := river.AddWorkerSafely(workers, settler); err != nil {
		return nil, err
	}
	client, err := bgjob.New(d.Pool, bgjob.Config{Schema: Name, Workers: workers, JobTimeout: jobrun.CloseTimeout, Log: d.Log})
	if err != nil {
		return nil, err
	}
	s.queue = client
	refused, err := fleet.NewRefusals(d.Meter)
	if err != nil {
		return nil, err
	}
	if s.jobTables, err = tablefeed.New(job.Feed(), d.Pool, s.hub, d.Clock, d.Log, d.Meter); err != nil {
		return nil, err
	}
	if s.runTables, err = tablefeed.New(jobrun.Feed(), d.Pool, s.hub, d.Clock, d.Log, d.Meter); err != nil {
		return nil, err
	}
	if s.renewals, err = assignment.NewRenewals(d.Meter); err != nil {
		return nil, err
	}
	if s.meters, err = job.NewMeters(ctx, d.Meter); err != nil {
		return nil, err
	}
	if err := cluster.RegisterGauges(d.Meter, d.Pool, d.Log); err != nil {
		return nil, err
	}
	if err := cluster.RegisterPoolGauges(d.Meter, d.Pool, d.Clock, d.Log); err != nil {
		return nil, err
	}
	s.wire(refused)
	return s, nil
}

// Name returns the service's name.
func (s *Service) Name() string { return Name }

// Ready checks the database and its schema.
func (s *Service) Ready(ctx context.Context) error {
	return migrate.Check(ctx, s.deps.Pool, Name, Migrations())
}
