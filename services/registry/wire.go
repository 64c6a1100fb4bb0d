package registry

import (
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/recipes"
	"github.com/signalbox-dev/signalbox/services/registry/internal/catalog"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deployment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/enginesync"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
	"github.com/signalbox-dev/signalbox/services/registry/internal/playground"
	"github.com/signalbox-dev/signalbox/services/registry/internal/recipe"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
	"github.com/signalbox-dev/signalbox/services/registry/internal/snapshot"
	"github.com/signalbox-dev/signalbox/services/registry/internal/transfer"
)

// wire creates the parts of the service. Each part is created after the parts on which it depends.
func (s *Service) wire(revisions *revision.Store, orderer *enginesync.Orderer) error {
	d := s.deps
	events, trail := event.NewLog(d.Clock, d.IDs, Name), audit.NewLog(d.Clock, d.IDs, Name)
	repeats := &idempotency.Once{Pool: d.Pool, Keys: idempotency.New(d.Clock)}
	projects := &projectClient{Client: d.Projects}

	s.sweeper = &retention.Sweeper{
		Objects: d.Blobs, Pool: d.Pool, Prefix: db.ObjectPrefix, LockSQL: db.LockObjectsSQL, Unused: db.UnusedObjects,
	}
	s.seeder = &recipe.Seeder{
		Pool: d.Pool, Blobs: d.Blobs, Files: d.Recipes, ManifestName: recipes.Manifest, Clock: d.Clock, Log: d.Log,
		Done: make(chan struct{}),
	}
	s.recipes = &recipe.Server{
		Pool: d.Pool, Projects: projects, Blobs: d.Blobs, Seeder: s.seeder, Once: repeats, Events: events, Audit: trail, Clock: d.Clock,
	}
	s.datasets = &dataset.Server{
		Pool: d.Pool, Projects: projects, Blobs: d.Blobs, Once: repeats, Events: events, Audit: trail, Clock: d.Clock,
		IDs: d.IDs, MaxBytes: blob.Limit(s.cfg.MaxUploadMB), Protections: &catalog.Protections{Queue: s.queue, Clock: d.Clock},
		Packer: dataset.NewPacker(d.Pool, d.Blobs, d.Clock, blob.Limit(s.cfg.MaxUploadMB), retention.Days(s.cfg.Ages.Object)),
	}
	s.models = &model.Server{
		Pool: d.Pool, Projects: projects, Artifacts: &artifactClient{Runs: d.Runs, Data: d.RunData, Lineage: d.Lineage}, Blobs: d.Blobs,
		Jobs: &jobClient{Runs: d.Runs},
		Once: repeats, Events: events, Audit: trail, Clock: d.Clock, IDs: d.IDs,
		MaxBytes: blob.Limit(s.cfg.MaxUploadMB), HoldFor: retention.Days(s.cfg.Ages.Object),
	}
	s.ledger = &epoch.Ledger{Pool: d.Pool, Hub: s.hub, Clock: d.Clock, Lease: s.cfg.AuthLease}
	store := &deployment.Store{}
	changer := &deployment.Changer{
		Pool: d.Pool, Store: store, Revisions: revisions, Orders: &enginesync.Orders{Queue: s.queue}, Events: events, Audit: trail, Clock: d.Clock,
	}
	tries := &playground.Changer{
		Pool: d.Pool, Revisions: revisions, Orders: changer.Orders, Events: events, Audit: trail, Clock: d.Clock,
	}
	changer.Sessions, s.tries = tries, tries
	pools := &enginesync.Pools{Works: d.Works}
	s.playgrounds = &playground.Server{
		Pool: d.Pool, Changer: tries, Revisions: revisions, Projects: projects, Pools: pools, Once: repeats, Clock: d.Clock, IDs: d.IDs, Probe: s.cfg.ProbeDeadline,
	}
	s.deployments = &deployment.Server{
		Pool: d.Pool, Changer: changer, Store: store, Revisions: revisions, Projects: projects, Replicas: s.ledger, Pools: pools, Once: repeats, Clock: d.Clock,
		IDs: d.IDs, Rand: d.Rand, Probe: s.cfg.ProbeDeadline, PublicURL: d.PublicURL,
	}
	s.watcher = &enginesync.Watcher{Works: d.Works, Changer: changer, Orderer: orderer, Clock: d.Clock, Log: d.Log}
	metrics, err := snapshot.NewMetrics(d.Meter)
	if err != nil {
		return err
	}
	s.snapshots = &snapshot.Server{
		Pool: d.Pool, Store: store, Revisions: revisions, Ledger: s.ledger, Hub: s.hub, Clock: d.Clock, Metrics: metrics,
		Changer: changer,
	}
	s.owners = &transfer.Server{Owners: &transfer.Owners{Pool: d.Pool, Events: events, Audit: trail}, Replicas: s.ledger}
	if s.catalog, err = catalog.New(d.Pool, d.Blobs, s.seeder, trail, d.Log, d.Meter); err != nil {
		return err
	}
	s.lineage = &catalog.LineageServer{Pool: d.Pool, Runs: d.Lineage}
	s.wireCatalog(repeats, events, trail, projects)
	return nil
}
