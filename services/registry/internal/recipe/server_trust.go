package recipe

import (
	"context"

	"github.com/jackc/pgx/v5"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// TrustRecipe sets whether an administrator trusts one digest of a version.
func (s *Server) TrustRecipe(ctx context.Context, in *registryv1.TrustRecipeRequest) (*registryv1.Recipe, error) {
	name, version := in.GetNamespace()+"/"+in.GetName(), in.GetVersion()
	v, err := s.version(ctx, name, version)
	if err != nil {
		return nil, err
	}
	if name == customRecipe && in.GetTrusted() {
		return nil, fault.New(fault.Conflict, "recipe_untrusted", "recipe %s runs commands of users and cannot be trusted", name)
	}
	before := v.Trusted()
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if v, err = s.Store.Trust(ctx, tx, name, version, in.GetDigest(), in.GetTrusted()); err != nil {
			return err
		}
		if v == nil {
			return fault.New(fault.Conflict, "recipe_digest",
				"recipe %s@%s does not have the digest %s; review its current content first", name, version, in.GetDigest())
		}
		return s.Audit.Record(ctx, tx, audit.Entry{
			Action: "recipe.trust", TargetKind: SubjectKind, TargetID: name + "@" + version, Before: map[string]any{"trusted": before},
			After: map[string]any{"trusted": v.Trusted(), "digest": v.Digest},
		})
	})
	if err != nil {
		return nil, err
	}
	return ToProto(v), nil
}
