package run

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Store reads runs and changes what people write about them. Package job writes the rest together with their jobs.
type Store struct{}

const (
	// shownColumns are the columns of a run without its notes. The labels of a run that is older than the column labels
	// are those of its job until db.CopyRunLabels has copied them.
	shownColumns = `id, job_id, name, owner_id, owner_name, project_id, project, visibility, visibility_version, state, attempts,
		recipe_lock, bindings, recipe_digest, spec_digest, end_reason, created_at, started_at, ended_at, parents, protected,
		protected_datasets, tags, coalesce(labels, (SELECT j.labels FROM job j WHERE j.run_id = run.id), '{}') AS labels,
		notes_version, archived_at IS NOT NULL AS archived, version, silence_s`
	runSelect = `SELECT ` + shownColumns + `, coalesce((SELECT n.text FROM run_note n WHERE n.run_id = run.id
		AND n.version = run.notes_version), '') AS notes FROM run`
)

// Get returns a run within the scope. The given id is that of the run or of its job.
func (s Store) Get(ctx context.Context, q pg.Querier, scope authn.Scope, id string) (*Run, error) {
	r, err := pg.One[Run](q.Query(ctx, runSelect+` WHERE `+access.Visible+` AND (id = $4 OR job_id = $4)`, access.Args(scope, id)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(KindOfID(id), id)
	}
	if err != nil {
		return nil, fmt.Errorf("load run: %w", err)
	}
	return r, nil
}

// Goals returns "minimize" or "maximize" for the metrics of a run whose recipe states which values are better.
func (Store) Goals(ctx context.Context, q pg.Querier, runID string) (goals map[string]string, err error) {
	err = q.QueryRow(ctx, `SELECT goals FROM run WHERE id = $1`, runID).Scan(&goals)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("load the goals of run %s: %w", runID, err)
	}
	return goals, nil
}

// Template is a job with the serialized AttemptSpec that its attempts share.
type Template struct {
	JobID string
	Spec  []byte
}

// StartingFrom returns the jobs that have not ended and whose spec starts from any version of a model, oldest first.
func (Store) StartingFrom(ctx context.Context, q pg.Querier, model string) ([]Template, error) {
	rows, err := q.Query(ctx, `SELECT id, template FROM job WHERE ended_at IS NULL AND starts_with(spec->'bindings'->>'model', $1 || '@')
		ORDER BY created_at, id`, model)
	if err != nil {
		return nil, fmt.Errorf("find the users of a model: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Template, err error) { return t, row.Scan(&t.JobID, &t.Spec) })
	if err != nil {
		return nil, fmt.Errorf("find the users of a model: %w", err)
	}
	return found, nil
}

// Protect protects the unfinished runs that read any version of a dataset. It returns the number of runs that were not
// protected by this dataset before. Only counts and lengths of their later reports are stored, because the declarations
// of their recipes were not recorded.
func (Store) Protect(ctx context.Context, q pg.Querier, datasetID, ref string) (int64, error) {
	tag, err := q.Exec(ctx, `WITH found AS (
			SELECT id, run_id FROM job WHERE ended_at IS NULL
				AND EXISTS (SELECT FROM jsonb_path_query((spec->'bindings'->'datasets')::jsonb, '$.*') bound
					WHERE starts_with(bound #>> '{}', $2::text || '@'))
			ORDER BY id FOR UPDATE
		), marked AS (
			UPDATE job SET protected = true FROM found WHERE job.id = found.id
		)
		UPDATE run SET protected = true, protected_datasets = array_append(protected_datasets, $1::text)
			FROM found WHERE run.id = found.run_id AND NOT $1::text = ANY(protected_datasets)`, datasetID, ref)
	if err != nil {
		return 0, fmt.Errorf("protect the runs of a dataset: %w", err)
	}
	return tag.RowsAffected(), nil
}

// KindOfID returns the kind of the id by which a run was requested: "run" or "job".
func KindOfID(name string) string {
	if id.Check(id.Job, name) == nil {
		return "job"
	}
	return "run"
}

// Lock returns a run within the scope and locks its row until the end of the transaction. It reads the run after it has
// the lock: the statement that waits for the lock would not see notes that were added meanwhile.
func (s Store) Lock(ctx context.Context, tx pgx.Tx, scope authn.Scope, id string) (*Run, error) {
	_, err := tx.Exec(ctx, `SELECT FROM run WHERE `+access.Visible+` AND id = $4 FOR UPDATE`, access.Args(scope, id)...)
	if err != nil {
		return nil, fmt.Errorf("lock run: %w", err)
	}
	return s.Get(ctx, tx, scope, id)
}

// SaveFacts writes the name, the tags, the version of the notes and the archiving of a run, and increases its version.
// It returns a conflict error if the run was changed after it was loaded.
func (Store) SaveFacts(ctx context.Context, tx pgx.Tx, r *Run, now time.Time) error {
	err := tx.QueryRow(ctx, `UPDATE run SET name = @name, tags = @tags, notes_version = @notes_version,
			archived_at = CASE WHEN @archived THEN coalesce(archived_at, @now) END, version = version + 1
		WHERE id = @id AND version = @version RETURNING version`, pgx.StrictNamedArgs{
		"id": r.ID, "version": r.Version, "name": r.Name, "tags": r.Tags, "notes_version": r.NotesVersion, "archived": r.Archived, "now": now,
	}).Scan(&r.Version)
	if errors.Is(err, pgx.ErrNoRows) {
		return fault.New(fault.Conflict, request.CodeStale, "run %s has changed since it was read; read it again", r.ID)
	}
	if err != nil {
		return fmt.Errorf("save the changed fields of a run: %w", err)
	}
	return nil
}

// Notes is a version of the notes of a run.
type Notes struct {
	RunID     string
	Version   int32
	Author    string
	CreatedAt time.Time
	Text      *string // nil in lists
}

// AddNotes stores the notes of a run as the version r.NotesVersion, and deletes the versions that are too old to be kept.
func (Store) AddNotes(ctx context.Context, tx pgx.Tx, r *Run, author *authn.Caller, now time.Time) error {
	_, err := tx.Exec(ctx, `INSERT INTO run_note (run_id, version, text, author_id, author, created_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		r.ID, r.NotesVersion, *r.Notes, author.Subject, author.Username, now)
	if err != nil {
		return fmt.Errorf("insert the notes of a run: %w", err)
	}
	if _, err := tx.Exec(ctx, `DELETE FROM run_note WHERE run_id = $1 AND version <= $2`, r.ID, r.NotesVersion-maxNotes); err != nil {
		return fmt.Errorf("delete old notes of a run: %w", err)
	}
	return nil
}

// ListNotes returns the versions of the notes of a run without their texts, newest first. The caller has checked that
// the user may read the run.
func (Store) ListNotes(ctx context.Context, q pg.Querier, runID string, p request.Page) ([]*Notes, error) {
	notes, err := pg.All[Notes](q.Query(ctx, `SELECT run_id, version, author, created_at, NULL::text AS text FROM run_note
		WHERE run_id = $1 ORDER BY version DESC LIMIT $2 OFFSET $3`, runID, p.FetchLimit(), p.Offset))
	if err != nil {
		return nil, fmt.Errorf("list the notes of a run: %w", err)
	}
	return notes, nil
}

// GetNotes returns a version of the notes of a run. The caller has checked that the user may read the run.
func (Store) GetNotes(ctx context.Context, q pg.Querier, runID string, version int32) (*Notes, error) {
	n, err := pg.One[Notes](q.Query(ctx, `SELECT run_id, version, author, created_at, text FROM run_note
		WHERE run_id = $1 AND version = $2`, runID, version))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf("version of the notes", strconv.Itoa(int(version)))
	}
	if err != nil {
		return nil, fmt.Errorf("load the notes of a run: %w", err)
	}
	return n, nil
}
