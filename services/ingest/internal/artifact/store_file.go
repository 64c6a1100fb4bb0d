package artifact

import (
	"context"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// filed is the expression, with an index, of the kind, the step and the name of the artifacts of the given table. In it, ASCII
// letters of different case are the same.
func filed(table, name string) string {
	return `(` + table + `.kind || '/' || coalesce(` + table + `.step::text, '') || '/' || left(lower(` + name + ` COLLATE "C"), 512))`
}

// Files returns a page of a run's artifacts whose ids are greater than after, in the order of their ids, and whether another
// page follows. An artifact clashes if an older one of the same kind and step has the same name, has it as a folder, or is
// a folder of it. ASCII letters of different case are the same.
func (s *Store) Files(ctx context.Context, runID, after string, p request.Page) ([]*File, bool, error) {
	own, other := filed("a", "a.given"), filed("b", "b.name")
	older := ` FROM artifact b WHERE b.run_id = a.run_id AND b.name IS NOT NULL AND b.id < a.id AND `
	all, err := pg.All[File](s.Pool.Query(ctx, `SELECT a.*,
			EXISTS (SELECT`+older+other+` = ANY (ARRAY(SELECT array_to_string(part[1:n], '/')
				FROM string_to_array(`+own+`, '/') part, generate_series(3, cardinality(part)) n)))
			OR EXISTS (SELECT`+older+other+` > `+own+` || '/' AND `+other+` < `+own+` || '0') AS clashes
		FROM (SELECT `+columns+` FROM artifact WHERE run_id = $1 AND id COLLATE "C" > $2 ORDER BY id COLLATE "C" LIMIT $3 OFFSET $4) a
		ORDER BY a.id COLLATE "C"`,
		runID, after, p.FetchLimit(), p.Offset))
	if err != nil {
		return nil, false, fmt.Errorf("list the files of a run: %w", err)
	}
	all, more := request.CutPage(all, p)
	return all, more, nil
}

// Sealed reports whether a run has registered artifacts that users may not see.
func (s *Store) Sealed(ctx context.Context, runID string) (sealed bool, err error) {
	err = s.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM artifact WHERE run_id = $1 AND withheld)`, runID).Scan(&sealed)
	if err != nil {
		return false, fmt.Errorf("read whether the artifacts of a run are withheld: %w", err)
	}
	return sealed, nil
}
