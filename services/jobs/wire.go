package jobs

import (
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idem"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/catalog"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/cluster"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/desk"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/drive"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gate"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/hardware"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/owner"
	jobqueue "github.com/signalbox-dev/signalbox/services/jobs/internal/queue"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/reconcile"
	jobrun "github.com/signalbox-dev/signalbox/services/jobs/internal/run"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/share"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/submit"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/token"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/trail"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/watch"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/work"
)

// wire connects the areas from the lowest to the highest.
func (s *Service) wire() {
	d := s.deps
	events := event.NewLog(d.Clock, d.IDs, Name)
	tracks := &trail.Trail{Log: audit.NewLog(d.Clock, d.IDs, Name)}
	repeats := &idem.Once{Pool: d.Pool, Keys: s.keys}
	ledger := quota.Ledger{Default: s.cfg.DefaultGPULimit, TeamDefault: s.cfg.DefaultTeamGPULimit}
	tokens := &token.Store{Rand: d.Rand}
	jobs := &job.Store{Events: events, Closer: &jobrun.Closing{Queue: s.queue}}
	works := &work.Store{Keys: d.Keyring}

	s.keeper = fleet.NewKeeper(d.Pool, events, s.cfg.NodeSlots)
	s.registrar = &fleet.Registrar{
		Pool: d.Pool, Clock: d.Clock, IDs: d.IDs, Rand: d.Rand, CA: d.CA, Events: events, Trail: tracks, Slots: s.cfg.NodeSlots,
	}
	s.driver = &drive.Driver{Pool: d.Pool, Jobs: jobs, Works: works, Ledger: ledger, IDs: d.IDs}
	s.orders = &cluster.Orders{Pool: d.Pool, Events: events, Trail: tracks, Evictor: s.driver}
	s.hardware = &hardware.Copy{
		Pool: d.Pool, Hub: s.hub, Clock: d.Clock, Mono: clock.Monotonic(), Replica: d.IDs.New(id.Replica), Log: d.Log,
	}
	s.scheduler = &jobqueue.Scheduler{Pool: d.Pool, IDs: d.IDs, Jobs: jobs, Works: works, Ledger: ledger}
	s.reconcile = &reconcile.Reconciler{
		Pool: d.Pool, Driver: s.driver, Nodes: s.keeper, Works: works, Clock: d.Clock,
		Lease: s.cfg.NodeLease, Fence: s.cfg.FenceTimeout,
	}
	s.serve(jobs, works, tokens, ledger, repeats, tracks)
	s.share(repeats, events, tracks)
}

// share creates the servers for public links.
func (s *Service) share(repeats *idem.Once, events *event.Log, tracks *trail.Trail) {
	d := s.deps
	live := &share.Live{Reports: d.RunData, Catalog: d.Catalog, People: d.Accounts}
	s.shares = &share.Server{
		Pool: d.Pool, Live: live, Once: repeats, IDs: d.IDs, Rand: d.Rand, Events: events, Trail: tracks, PublicURL: d.PublicURL,
	}
	s.shared = &share.PublicServer{Pool: d.Pool, Live: live}
}

// serve creates the gRPC servers of the areas.
func (s *Service) serve(
	jobs *job.Store, works *work.Store, tokens *token.Store, ledger quota.Ledger, repeats *idem.Once, tracks *trail.Trail,
) {
	d := s.deps
	admission := &submit.Admission{
		World: &gate.World{
			Catalog: &catalog.Registry{Client: d.Catalog}, Projects: &submit.AuthProjects{Client: d.Projects},
			Pools: &submit.Rows{DB: d.Pool, Ledger: ledger}, Accounts: &submit.Rows{DB: d.Pool, Ledger: ledger},
			Hardware: s.hardware, Registries: s.cfg.ImageRegistries,
		},
		Jobs: jobs, Once: repeats, IDs: d.IDs, Rand: d.Rand, Trail: tracks,
	}
	s.jobs = &desk.Server{
		Pool: d.Pool, Jobs: jobs, Submitter: admission, Mover: s.driver, Trail: tracks,
		Watcher: &watch.Watcher{Pool: d.Pool, Jobs: jobs, Hub: s.hub, Clock: d.Clock},
	}
	s.runs = &jobrun.Server{Pool: d.Pool}
	s.fleets = &fleet.Server{
		Registrar: s.registrar, Once: repeats, PublicURL: d.PublicURL, AgentAddress: d.AgentAddress, Heartbeat: s.cfg.heartbeat(),
	}
	s.nodes = &cluster.Server{Orders: s.orders}
	s.series = &hardware.Server{
		Copy: s.hardware, Teams: d.Accounts,
		Changes: &hardware.Changes{Pool: d.Pool, Hub: s.hub, Clock: d.Clock, Audit: tracks.Log, Queue: s.queue},
	}
	s.agents = &work.AgentServer{
		Agents: &work.Agents{
			Pool: d.Pool, Works: works, Observer: s.driver, Nodes: s.keeper, Hub: s.hub, Clock: d.Clock,
			Heartbeat: s.cfg.heartbeat(), IngestEndpoint: s.ingestEndpoint,
		},
		Tokens: tokens, Blobs: d.Blobs, Trail: tracks, Nodes: s.registrar,
	}
	s.runPeer = &jobrun.PeerServer{Pool: d.Pool, Tokens: tokens, Reporter: s.driver, Jobs: jobs, Hub: s.hub, Clock: d.Clock}
	s.quotas = &quota.Server{Pool: d.Pool, Ledger: ledger, People: &quota.AuthPeople{Client: d.Accounts}, Audit: tracks.Log}
	s.quotaPeer = &quota.PeerServer{Pool: d.Pool, Ledger: ledger}
	s.ownerPeer = &owner.Server{Owners: &owner.Owners{Pool: d.Pool, Jobs: jobs, Ledger: ledger, Trail: tracks}}
	s.workPeer = &work.PeerServer{Pool: d.Pool, Works: works, Hub: s.hub, Clock: d.Clock}
}

// ingestEndpoint returns the base URL that training reports to.
func (s *Service) ingestEndpoint() string {
	if s.cfg.IngestEndpoint != "" {
		return s.cfg.IngestEndpoint
	}
	return s.deps.PublicURL() + "/api/ingest"
}
