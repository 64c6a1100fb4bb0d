package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// open reports whether a reference refers to an existing dataset that is not protected. The caller's rights do not
// matter.
func open(ctx context.Context, q pg.Querier, r ref.Ref) (bool, error) {
	var protected bool
	err := q.QueryRow(ctx, `SELECT protected FROM dataset WHERE project = $1 AND name = $2`, r.Project, r.Name).Scan(&protected)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("check whether a dataset is protected: %w", err)
	}
	return !protected, nil
}
