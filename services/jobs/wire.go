package jobs

import (
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/admission"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/cluster"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/hardware"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobapi"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/lifecycle"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/reporting"
	jobrun "github.com/signalbox-dev/signalbox/services/jobs/internal/run"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/runsearch"
	jobqueue "github.com/signalbox-dev/signalbox/services/jobs/internal/scheduler"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/share"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/transfer"
)

// wire creates the objects of all packages. An object is created before those that need it.
func (s *Service) wire(refused *fleet.Refusals) {
	d := s.deps
	events := event.NewLog(d.Clock, d.IDs, Name)
	tracks := &db.AuditTrail{Log: audit.NewLog(d.Clock, d.IDs, Name)}
	repeats := &idempotency.Once{Pool: d.Pool, Keys: idempotency.New(d.Clock)}
	ledger := quota.Ledger{Default: s.cfg.DefaultGPULimit, TeamDefault: s.cfg.DefaultTeamGPULimit}
	tokens := &reporting.Store{Rand: d.Rand}
	closing := &jobrun.Closing{Queue: s.queue}
	jobs := &job.Store{Events: events, Closer: closing}
	works := &assignment.Store{Keys: d.Keyring}

	s.liveness = fleet.NewLiveness(d.Pool, events, s.cfg.NodeSlots, s.cfg.SlurmWorks)
	s.registrar = &fleet.Registrar{
		Pool: d.Pool, Clock: d.Clock, IDs: d.IDs, Rand: d.Rand, CA: d.CA, Events: events, Trail: tracks, Slots: s.cfg.NodeSlots,
	}
	s.driver = &lifecycle.Driver{Pool: d.Pool, Jobs: jobs, Works: works, Ledger: ledger, IDs: d.IDs, Lines: closing, Meters: s.meters}
	s.orders = &cluster.Orders{Pool: d.Pool, Events: events, Trail: tracks, Evictor: s.driver}
	s.hardware = &hardware.Copy{
		Pool: d.Pool, Hub: s.hub, Clock: d.Clock, Mono: clock.Monotonic(), Replica: d.IDs.New(id.Replica), Log: d.Log,
	}
	s.scheduler = &jobqueue.Scheduler{Pool: d.Pool, IDs: d.IDs, Jobs: jobs, Works: works, Ledger: ledger, Meters: s.meters}
	s.reconcile = &lifecycle.Reconciler{
		Pool: d.Pool, Driver: s.driver, Nodes: s.liveness, Works: works, Clock: d.Clock,
		Lease: s.cfg.NodeLease, Fence: s.cfg.FenceTimeout, Interval: s.cfg.SchedulerInterval, JoinPatience: s.cfg.JoinTimeout,
	}
	s.deletion = &jobrun.DeleteServer{
		Pool: d.Pool, Ingest: d.RunData, Catalog: d.Catalog, Events: events, Trail: tracks, Queue: s.queue,
	}
	s.outside = &reporting.Outside{Pool: d.Pool, Events: events, Closer: jobs.Closer}
	s.reports = &reporting.Server{
		Tokens: tokens, Projects: reporting.Projects{Client: d.Projects}, Once: repeats, IDs: d.IDs, Events: events, Trail: tracks, Endpoint: s.ingestEndpoint,
	}
	s.serve(jobs, works, tokens, ledger, repeats, tracks, refused)
	s.runs = &jobrun.Server{Pool: d.Pool, Projects: d.Projects, Clock: d.Clock, Events: events, Trail: tracks, Tables: s.runTables}
	s.searches = &runsearch.Server{Pool: d.Pool}
	s.copier = &runsearch.Copier{Pool: d.Pool, Ingest: d.RunData, Clock: d.Clock}
	s.closer.Ends, s.closer.Project = []jobrun.Ends{s.driver, s.outside}, s.copier.CopyRun
	s.outside.Finish = s.closer.Close
	s.share(repeats, events, tracks)
}

// share creates the servers for public links.
func (s *Service) share(repeats *idempotency.Once, events *event.Log, tracks *db.AuditTrail) {
	d := s.deps
	live := &share.Live{Reports: d.RunData, Catalog: d.Catalog, People: d.Accounts}
	s.shares = &share.Server{
		Pool: d.Pool, Live: live, Once: repeats, IDs: d.IDs, Rand: d.Rand, Events: events, Trail: tracks, PublicURL: d.PublicURL,
	}
	s.shared = &share.PublicServer{Pool: d.Pool, Live: live}
}

// serve creates the gRPC servers, except those for public links.
func (s *Service) serve(
	jobs *job.Store, works *assignment.Store, tokens *reporting.Store, ledger quota.Ledger, repeats *idempotency.Once, tracks *db.AuditTrail,
	refused *fleet.Refusals,
) {
	d := s.deps
	admission := &jobapi.Admission{
		Inputs: &admission.Inputs{
			Catalog: &jobspec.Registry{Client: d.Catalog}, Projects: &jobapi.AuthProjects{Client: d.Projects},
			Pools: &jobapi.Rows{DB: d.Pool, GiveUp: s.cfg.giveUp()}, Accounts: &jobapi.Rows{DB: d.Pool, Ledger: ledger},
			Hardware: s.hardware, Registries: s.cfg.ImageRegistries,
		},
		Jobs: jobs, Once: repeats, IDs: d.IDs, Rand: d.Rand, Trail: tracks, Refused: refused,
	}
	s.jobs = &jobapi.Server{
		Pool: d.Pool, Jobs: jobs, Admission: admission, Mover: s.driver, Trail: tracks,
		Hub: s.hub, Clock: d.Clock, Tables: s.jobTables,
	}
	s.fleets = &fleet.Server{
		Registrar: s.registrar, Once: repeats, PublicURL: d.PublicURL, AgentAddress: d.AgentAddress, Heartbeat: s.cfg.heartbeat(),
	}
	s.nodes = &cluster.Server{Orders: s.orders}
	s.series = &hardware.Server{
		Copy: s.hardware, Teams: d.Accounts,
		Changes: &hardware.Changes{Pool: d.Pool, Hub: s.hub, Clock: d.Clock, Audit: tracks.Log, Queue: s.queue},
	}
	s.agents = &assignment.AgentServer{
		Agents: &assignment.Agents{
			Pool: d.Pool, Works: works, Observer: s.driver, Nodes: s.liveness, Hub: s.hub, Clock: d.Clock,
			Heartbeat: s.cfg.heartbeat(), IngestEndpoint: s.ingestEndpoint,
		},
		Tokens: tokens, Blobs: d.Blobs, Trail: tracks, Nodes: s.registrar, Rand: d.Rand,
		Fence: s.cfg.FenceTimeout,
	}
	s.leases = &assignment.LeaseServer{Pool: d.Pool, Works: works, Every: s.cfg.renewal(), Count: s.renewals}
	s.runPeer = &reporting.PeerServer{
		Pool: d.Pool, Tokens: tokens, Reporter: s.driver, Outside: s.outside, Jobs: jobs, Hub: s.hub, Clock: d.Clock,
		Catalog: d.Catalog,
	}
	s.lineage = &jobrun.LineageServer{Pool: d.Pool}
	s.quotas = &quota.Server{Pool: d.Pool, Ledger: ledger, People: &quota.AuthPeople{Client: d.Accounts}, Audit: tracks.Log}
	s.quotaPeer = quota.NewPeerServer(d.Pool, ledger)
	s.ownerPeer = &transfer.Server{Owners: &transfer.Owners{Pool: d.Pool, Jobs: jobs, Ledger: ledger, Trail: tracks}}
	s.workPeer = &assignment.PeerServer{
		Pool: d.Pool, Works: works, Hub: s.hub, Clock: d.Clock, GiveUp: s.cfg.giveUp(), Refused: refused, Projects: d.Projects,
	}
}

// ingestEndpoint returns the base URL to which training processes report.
func (s *Service) ingestEndpoint() string {
	if s.cfg.IngestEndpoint != "" {
		return s.cfg.IngestEndpoint
	}
	return s.deps.PublicURL() + "/api/ingest"
}
