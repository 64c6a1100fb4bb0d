package jobs

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

// localTTL is how long the join token of an embedded agent is valid.
const localTTL = 10 * time.Minute

// JoinLocal creates the named fleet with the given pools if it does not exist, and mints a join token for one node.
// It is for an agent in the same process and for the first agent of an installation. It checks no permissions,
// because the caller is the installation itself.
func (s *Service) JoinLocal(ctx context.Context, name string, pools []string) (secret.String, error) {
	var token secret.String
	err := pg.InTx(ctx, s.deps.Pool, func(ctx context.Context, tx pgx.Tx) error {
		id, err := s.registrar.Store.ByName(ctx, tx, name)
		if err != nil {
			return err
		}
		if id == "" {
			f, err := s.registrar.Create(ctx, tx, name, fleet.KindAgent, pools)
			if err != nil {
				return err
			}
			id = f.ID
		}
		_, token, err = s.registrar.Mint(ctx, tx, id, localTTL, fleet.DefaultUses)
		return err
	})
	return token, err
}
