package registry

import (
	"fmt"

	"github.com/riverqueue/river"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/services/registry/internal/codepackage"
	"github.com/signalbox-dev/signalbox/services/registry/internal/environment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/rubric"
	"github.com/signalbox-dev/signalbox/services/registry/internal/solution"
)

// validator registers the queue worker that validates environment versions.
func (s *Service) validator(workers *river.Workers) error {
	d := s.deps
	err := river.AddWorkerSafely(workers, &environment.Validator{
		Pool: d.Pool, Blobs: d.Blobs, Events: event.NewLog(d.Clock, d.IDs, Name), Clock: d.Clock, MaxBytes: blob.Limit(s.cfg.MaxUploadMB),
	})
	if err != nil {
		return fmt.Errorf("register the validation worker: %w", err)
	}
	return nil
}

// wireCatalog creates the servers of packages, environments, rubrics, solutions and solution applications.
func (s *Service) wireCatalog(repeats *idempotency.Once, events *event.Log, trail *audit.Log, projects *projectClient) {
	d := s.deps
	s.environments = &environment.Server{
		Pool: d.Pool, Projects: projects, Blobs: d.Blobs, Queue: &environment.Validations{Queue: s.queue}, Once: repeats, Events: events, Audit: trail,
		Clock: d.Clock, IDs: d.IDs, MaxBytes: blob.Limit(s.cfg.MaxUploadMB), HoldFor: retention.Days(s.cfg.Ages.Object),
	}
	s.packages = &codepackage.Server{
		Pool: d.Pool, Projects: projects, Blobs: d.Blobs, Once: repeats, Events: events, Audit: trail, Clock: d.Clock, IDs: d.IDs,
		Log: d.Log, MaxBytes: blob.Limit(s.cfg.MaxUploadMB), Unused: s.sweeper,
	}
	s.rubrics = &rubric.Server{Pool: d.Pool, Projects: projects, Once: repeats, Events: events, Audit: trail, Clock: d.Clock, IDs: d.IDs}
	desk := &solution.Deps{Pool: d.Pool, Projects: projects, Once: repeats, Events: events, Audit: trail, Clock: d.Clock, IDs: d.IDs}
	s.solutions = &solution.Server{Deps: desk}
	s.applications = &solution.Applications{Deps: desk, Catalog: &solution.Catalog{Pool: d.Pool, Seeder: s.seeder}}
}
