package solution

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/jackc/pgx/v5"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Applications implements SolutionApplicationService.
type Applications struct {
	registryv1.UnimplementedSolutionApplicationServiceServer
	*Deps

	Catalog *Catalog
}

const createMethod = registryv1.SolutionApplicationService_CreateSolutionApplication_FullMethodName

// CreateSolutionApplication applies a solution. If an identical application exists, it returns the existing one.
func (s *Applications) CreateSolutionApplication(
	ctx context.Context, in *registryv1.CreateSolutionApplicationRequest,
) (*registryv1.SolutionApplicationOut, error) {
	out := &registryv1.SolutionApplicationOut{}
	done, err := s.Once.Replay(ctx, createMethod, in, out)
	if err != nil {
		return nil, err
	}
	if !done {
		if err := s.apply(ctx, in, out); err != nil {
			return nil, err
		}
	}
	if idempotency.TakeExistingMark(out) {
		return out, request.SetStatus(ctx, http.StatusOK)
	}
	return out, nil
}

// apply resolves all references and stores the snapshot. If the request contains a manifest, it also stores the
// solution.
func (s *Applications) apply(
	ctx context.Context, in *registryv1.CreateSolutionApplicationRequest, out *registryv1.SolutionApplicationOut,
) error {
	name, m, err := readSolution(in.GetSolution())
	if err != nil {
		return err
	}
	owner, err := access.OwnerFor(ctx, s.Projects, in.GetProject())
	if err != nil {
		return err
	}
	if m == nil {
		if m, err = s.stored(ctx, owner, name); err != nil {
			return err
		}
	}
	a, err := s.draft(ctx, owner, m, in)
	if err != nil {
		return err
	}
	digest, snapshot, err := a.Snapshot.Sum()
	if err != nil {
		return err
	}
	a.Digest = digest
	return s.Once.Do(ctx, createMethod, in, out, func(ctx context.Context, tx pgx.Tx) error {
		if _, _, err := s.keep(ctx, tx, s.solution(owner, m)); err != nil {
			return err
		}
		kept, fresh, err := s.Store.Apply(ctx, tx, a, snapshot)
		if err != nil {
			return err
		}
		idempotency.Set(out, applicationToProto(kept))
		if !fresh {
			idempotency.MarkExisting(out)
			return nil
		}
		return s.record(ctx, tx, "solution_application.create", ApplicationKind, a.ID,
			map[string]any{"solution": a.Solution, "digest": a.Digest, "bindings": a.Snapshot.Bindings})
	})
}

// draft builds the application of a manifest to the bindings of a request.
func (s *Applications) draft(
	ctx context.Context, owner access.Owner, m *Manifest, in *registryv1.CreateSolutionApplicationRequest,
) (*Application, error) {
	resolved, err := s.Catalog.Resolve(ctx, bindingsFromProto(in.GetBindings()))
	if err != nil {
		return nil, err
	}
	recipe, err := s.Catalog.recipe(ctx, m.Recipe)
	if err != nil {
		return nil, err
	}
	if recipe == nil || recipe.retired {
		return nil, refuse(GateRecipe, "the catalog has no recipe %s", m.Recipe)
	}
	resolved.Digests[BindRecipe] = recipe.digest
	a := &Application{
		Owner: owner, ID: s.IDs.New(id.SolutionApplication), Solution: m.Name + "@" + m.Version, Resolved: resolved.Digests, CreatedAt: s.Clock.Now(),
	}
	a.Snapshot, err = take(m, resolved, in.GetBusinessTaskIds())
	return a, err
}

// readSolution parses the two forms of a solution in a request: <name>@<version> or a manifest.
func readSolution(raw json.RawMessage) (name string, m *Manifest, err error) {
	const field = "solution"
	if len(raw) > 0 && raw[0] == '{' {
		m, err = Read(raw, field)
		return "", m, err
	}
	if json.Unmarshal(raw, &name) != nil {
		return "", nil, fault.InvalidFields(fault.At(fault.TypeValue, "Input should be <name>@<version> or a manifest", field))
	}
	if _, _, ok := split(name); !ok {
		return "", nil, fault.InvalidFields(fault.At(fault.TypeStringPattern, "String should be <name>@<version>", field))
	}
	return name, nil, nil
}

// stored returns the manifest of a solution of the project.
func (s *Applications) stored(ctx context.Context, owner access.Owner, text string) (*Manifest, error) {
	name, version, _ := split(text)
	found, err := s.Store.Named(ctx, s.Pool, authn.CallerOf(ctx).Reads(), owner.ProjectID, name, version)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, refuse(GateSolution, "project %s has no solution %s", owner.Project, text)
	}
	return Read(found.Manifest, "solution")
}

// ListSolutionApplications returns a page of the applications visible to the caller, newest first.
func (s *Applications) ListSolutionApplications(
	ctx context.Context, in *registryv1.ListSolutionApplicationsRequest,
) (*registryv1.SolutionApplicationsOut, error) {
	p, err := request.ReadPage(new(int32(PageSize)), in.Offset)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.Applications(ctx, s.Pool, authn.ScopeOf(ctx), p)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out := &registryv1.SolutionApplicationsOut{HasMore: more}
	for _, a := range found {
		out.Items = append(out.Items, applicationToProto(a))
	}
	return out, nil
}

// GetSolutionApplication returns one application.
func (s *Applications) GetSolutionApplication(
	ctx context.Context, in *registryv1.GetSolutionApplicationRequest,
) (*registryv1.SolutionApplicationOut, error) {
	a, err := s.application(ctx, in.GetApplicationId())
	if err != nil {
		return nil, err
	}
	return applicationToProto(a), nil
}

// GetSolutionApplicationStatus reports which bindings of an application have drifted.
func (s *Applications) GetSolutionApplicationStatus(
	ctx context.Context, in *registryv1.GetSolutionApplicationStatusRequest,
) (*registryv1.SolutionApplicationStatus, error) {
	a, err := s.application(ctx, in.GetApplicationId())
	if err != nil {
		return nil, err
	}
	status, err := s.Catalog.Status(ctx, a)
	if err != nil {
		return nil, err
	}
	return statusToProto(a, status), nil
}

func (s *Applications) application(ctx context.Context, applicationID string) (*Application, error) {
	if err := request.ID(id.SolutionApplication, "application_id", applicationID); err != nil {
		return nil, err
	}
	return s.Store.Application(ctx, s.Pool, authn.ScopeOf(ctx), applicationID)
}
