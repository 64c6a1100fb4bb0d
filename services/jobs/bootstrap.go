package jobs

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

// localTTL is how long the join token of an embedded agent holds.
const localTTL = 10 * time.Minute

// JoinLocal makes the fleet of this name with these pools where it is missing, and mints a join token
// for one node: how an agent in the same process, or the first one of an installation, gets in. The
// caller is the installation itself.
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
