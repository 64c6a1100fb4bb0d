package recipe

import (
	"context"
	"net/http"
	"path"
	"strings"

	"github.com/jackc/pgx/v5"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/codepackage"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
)

// PublishRecipe publishes a package as a version of a recipe of its project. If the version exists with the same content,
// it returns the version.
func (s *Server) PublishRecipe(ctx context.Context, in *registryv1.PublishRecipeRequest) (*registryv1.Recipe, error) {
	if err := request.ID(id.Package, "package_id", in.GetPackageId()); err != nil {
		return nil, err
	}
	if err := s.Seeder.Await(ctx); err != nil {
		return nil, err
	}
	b, err := s.Packages.Get(ctx, s.Pool, authn.CallerOf(ctx).Reads(), in.GetPackageId())
	if fault.Is(err, fault.Absent) {
		err = codepackage.Refuse("no such package: %s", in.GetPackageId())
	}
	if err != nil {
		return nil, err
	}
	owner, err := access.OwnerFor(ctx, s.Projects, b.Project)
	if err != nil {
		return nil, err
	}
	if err := b.Refusal(); err != nil {
		return nil, err
	}
	v, err := s.readPackage(ctx, b)
	if err != nil {
		return nil, err
	}
	v.Owner = owner
	out := &registryv1.Recipe{}
	err = s.Once.Do(ctx, registryv1.RecipeService_PublishRecipe_FullMethodName, in, out, func(ctx context.Context, tx pgx.Tx) error {
		return s.publish(ctx, tx, v, out)
	})
	if err != nil {
		return nil, err
	}
	if idempotency.TakeExistingMark(out) {
		return out, nil
	}
	return out, request.SetStatus(ctx, http.StatusCreated)
}

// readPackage reads the manifest of a package and checks it and the lock that it names.
func (s *Server) readPackage(ctx context.Context, b *codepackage.Bundle) (*Version, error) {
	if b.Size > maxPackage {
		return nil, refuse("the package has %d MiB; a recipe has at most %d MiB. Bind models and data to its jobs as inputs", b.Size>>20, maxPackage>>20)
	}
	text, found, err := codepackage.ReadFile(ctx, s.Blobs, b, manifestName, maxManifest+1)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, refuse("the package has no file %s; add it at the top of the folder", manifestName)
	case len(text) > maxManifest:
		return nil, refuse("%s has more than %d KiB; shorten it", manifestName, maxManifest>>10)
	}
	strict, err := readStrict(text)
	if err != nil {
		return nil, err
	}
	treeDigest, err := digest(text, b.SHA256) // also refuses a member that is set twice
	if err != nil {
		return nil, refuse("%s: %s", manifestName, err)
	}
	if err := strict.checkPublished(b.Project); err != nil {
		return nil, err
	}
	m, err := read(text)
	if err != nil {
		return nil, err
	}
	v := &Version{Manifest: m, Digest: treeDigest, Text: text, TreeSHA256: b.SHA256, TreeBytes: b.Size}
	v.State = StateActive
	if err := s.checkScript(ctx, b, m.Entrypoint); err != nil {
		return nil, err
	}
	return v, codepackage.CheckLock(ctx, s.Blobs, b, m.Requirements, "requirements in "+manifestName)
}

// checkScript refuses a command that runs a Python file which the package does not have.
func (s *Server) checkScript(ctx context.Context, b *codepackage.Bundle, command []string) error {
	if len(command) < 2 || command[0] != "python" || path.Ext(command[1]) != ".py" || path.IsAbs(command[1]) {
		return nil
	}
	_, found, err := codepackage.ReadFile(ctx, s.Blobs, b, path.Clean(command[1]), 0)
	if err == nil && !found {
		return refuse("the package has no file %s, which entrypoint in %s runs", command[1], manifestName)
	}
	return err
}

// publish stores a version, unless it exists.
func (s *Server) publish(ctx context.Context, tx pgx.Tx, v *Version, out *registryv1.Recipe) error {
	if err := s.Store.Lock(ctx, tx, v.Name); err != nil {
		return err
	}
	namespace, _, _ := strings.Cut(v.Name, "/")
	before, err := s.Store.Taken(ctx, tx, namespace, v.Name, v.Manifest.Version)
	if err != nil {
		return err
	}
	ref := v.Name + "@" + v.Manifest.Version
	switch {
	case before.Shipped:
		return fault.New(fault.Conflict, "recipe_namespace",
			"the installation has recipes of its own in %s; publish from a project with another key", namespace)
	case before.Versions > 0 && before.ProjectID != v.ProjectID || before.Versions > 0 && !authn.ScopeOf(ctx).Grants(before.OwnerID, before.ProjectID):
		return fault.New(fault.Conflict, "recipe_name", "the name %s belongs to another user or project; choose another name", v.Name)
	case before.Digest != "" && before.Digest != v.Digest:
		return fault.New(fault.Conflict, "recipe_version",
			"recipe %s exists with the digest %s, and this content has %s; a version never changes, so raise the version in %s",
			ref, before.Digest, v.Digest, manifestName)
	case before.Digest != "":
		there, err := s.Store.Get(ctx, tx, authn.ScopeOf(ctx), v.Name, v.Manifest.Version)
		if err != nil {
			return err
		}
		idempotency.Set(out, ToProto(there))
		idempotency.MarkExisting(out)
		return nil
	case before.Versions >= maxVersions:
		return fault.New(fault.Conflict, "recipe_version", "recipe %s has %d versions, which is the maximum; publish it under another name", v.Name, maxVersions)
	}
	if before.Versions > 0 {
		v.UserID, v.UserName = before.OwnerID, before.OwnerName
	}
	v.LockedAt = s.Clock.Now()
	if err := s.Store.Publish(ctx, tx, v); err != nil {
		return err
	}
	idempotency.Set(out, ToProto(v))
	return s.record(ctx, tx, "recipe.publish", event.Event{SubjectID: ref, Type: "published", To: v.State}, map[string]any{"digest": v.Digest, "state": v.State})
}

func (s *Server) record(ctx context.Context, tx pgx.Tx, action string, e event.Event, after map[string]any) error {
	e.SubjectKind = SubjectKind
	return db.RecordChange(ctx, tx, s.Events, s.Audit, action, e, after)
}

// UpdateRecipe changes the state of a version that a project has published.
func (s *Server) UpdateRecipe(ctx context.Context, in *registryv1.UpdateRecipeRequest) (*registryv1.Recipe, error) {
	name, version := in.GetNamespace()+"/"+in.GetName(), in.GetVersion()
	v, err := s.version(ctx, name, version)
	if err != nil {
		return nil, err
	}
	if v.ProjectID == "" {
		return nil, fault.New(fault.Conflict, "recipe_shipped", "recipe %s@%s comes with the installation, and its state changes only with a release", name, version)
	}
	if err := v.Require(authn.ScopeOf(ctx), SubjectKind, name+"@"+version); err != nil {
		return nil, err
	}
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		before, err := s.Store.SetState(ctx, tx, name, version, in.GetState())
		if err != nil || before == in.GetState() {
			return err
		}
		return s.record(ctx, tx, "recipe.update", event.Event{SubjectID: name + "@" + version, Type: "state_changed", From: before, To: in.GetState()},
			map[string]any{"state": in.GetState()})
	})
	if err != nil {
		return nil, err
	}
	return s.current(ctx, name, version)
}

func (s *Server) current(ctx context.Context, name, version string) (*registryv1.Recipe, error) {
	v, err := s.version(ctx, name, version)
	if err != nil {
		return nil, err
	}
	return ToProto(v), nil
}
