package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Position identifies the state of a database. After a restore, the database has a different or an earlier position.
type Position struct {
	// System identifies the cluster, Database the database in it. A promoted or recovered server has another Timeline.
	System   string `json:"system"`
	Timeline int64  `json:"timeline"`
	Database int64  `json:"database"`
	// WAL is the number of bytes of the write-ahead log that the server has flushed to disk. A crash does not lower it.
	WAL int64 `json:"wal"`
	// Sealed is the last position of the audit log's chain. Revoked is the number of the last revocation.
	Sealed  int64 `json:"sealed"`
	Revoked int64 `json:"revoked"`
	// At is when the position was read, by the clock of the database.
	At time.Time `json:"at"`
}

// ErrRestored is the error if the database is not the one that this installation last used, or is in an older state.
var ErrRestored = errors.New("the database was restored or replaced")

// current is the present position of a database, with what the database stores about its journals.
type current struct {
	Position

	journaledAt, restoredAt *time.Time
	// knows is true if the database has the revocation with the requested number, or if retention has deleted it.
	knows bool
}

func readPosition(ctx context.Context, q pg.Querier, revoked int64) (c current, err error) {
	err = q.QueryRow(ctx, `SELECT s.system_identifier::text, c.timeline_id, d.oid::bigint, (pg_current_wal_flush_lsn() - '0/0')::bigint,
			coalesce((SELECT max(position) FROM audit_seal), 0), coalesce((SELECT max(seq) FROM revocation), 0), clock_timestamp(),
			k.journaled_at, k.restored_at, EXISTS (SELECT FROM revocation WHERE seq = $1) OR coalesce($1 < (SELECT min(seq) FROM revocation), false)
		FROM pg_control_system() s, pg_control_checkpoint() c, pg_database d, continuity k WHERE d.datname = current_database()`, revoked).
		Scan(&c.System, &c.Timeline, &c.Database, &c.WAL, &c.Sealed, &c.Revoked, &c.At, &c.journaledAt, &c.restoredAt, &c.knows)
	if err != nil {
		return current{}, fmt.Errorf("read the position of the database: %w", err)
	}
	return c, nil
}

// follows returns an error that wraps ErrRestored unless the database has the state of the stamp or a later one.
func (c *current) follows(s *stamp) error {
	var why string
	switch {
	case c.System != s.System || c.Database != s.Database:
		why = "it is another database"
	case c.Timeline != s.Timeline:
		why = fmt.Sprintf("its timeline is %d, but was %d before", c.Timeline, s.Timeline)
	case c.WAL < s.WAL:
		why = fmt.Sprintf("its write-ahead log ends at %d, but ended at %d before", c.WAL, s.WAL)
	case c.Sealed < s.Sealed:
		why = fmt.Sprintf("its audit log has %d rows, but had %d before", c.Sealed, s.Sealed)
	case s.Revoked > 0 && !c.knows:
		why = fmt.Sprintf("the revocation %d is missing", s.Revoked)
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrRestored, why)
}

// restoredAfter reports whether a restore was completed after the stamp was written.
func (c *current) restoredAfter(s *stamp) bool {
	return c.restoredAt != nil && c.restoredAt.After(s.At)
}

// LastWrite is the last change that is recorded in a schema, except those by Restore.Settle.
type LastWrite struct {
	// At is the time of the change. A backup that contains the schema in this state was made at that time or later.
	At time.Time
	// Database identifies the cluster and the database in it.
	Database string
}

// ReadLastWrite reads the LastWrite of the connection's schema.
func ReadLastWrite(ctx context.Context, q pg.Querier) (w LastWrite, err error) {
	err = q.QueryRow(ctx, `SELECT coalesce(k.backup_at, greatest((SELECT max(at) FROM audit), (SELECT max(at) FROM event),
			(SELECT max(at) FROM revocation), k.journaled_at, 'epoch')), s.system_identifier || '/' || d.oid
		FROM pg_control_system() s, pg_database d, continuity k WHERE d.datname = current_database()`).Scan(&w.At, &w.Database)
	if err != nil {
		return LastWrite{}, fmt.Errorf("find the time of the backup: %w", err)
	}
	return w, nil
}

// newestStamp returns the newest stamp of the service's journals in a folder, or nil.
func newestStamp(auditDir, service string) (*stamp, error) {
	dirs, err := journalDirs(auditDir, service)
	if err != nil {
		return nil, err
	}
	var last *stamp
	for _, dir := range dirs {
		s, err := readStamp(dir)
		if err != nil {
			return nil, err
		}
		if s != nil && (last == nil || s.At.After(last.At)) {
			last = s
		}
	}
	return last, nil
}

// begins returns nil if a journal may begin in a folder without a stamp, and otherwise an error that wraps ErrRestored.
// A journal may begin in three cases: a restore of the database was completed; the folder has signed heads of the
// database, from a version without journals or from another replica; or nothing was sealed or revoked yet.
func (c *current) begins(ctx context.Context, heads HeadStore) error {
	if c.journaledAt == nil && c.restoredAt != nil {
		return nil
	}
	last, err := heads.Last(ctx)
	if err != nil {
		return err
	}
	if last > c.Sealed || last == 0 && c.Sealed+c.Revoked > 0 {
		return fmt.Errorf("%w: SERVICE_AUDIT_DIR contains signed heads for %d rows of the audit log but no position of the database, which has %d rows",
			ErrRestored, last, c.Sealed)
	}
	return nil
}

// CompleteRestore marks the restore of a schema as complete, so that its service accepts the database. Settle must have
// succeeded for the schemas of all services, because the service then starts to use the others.
func CompleteRestore(ctx context.Context, q pg.Querier) error {
	// With these values, a folder without a stamp may begin a journal when the service next starts.
	if _, err := q.Exec(ctx, `UPDATE continuity SET restored_at = clock_timestamp(), journaled_at = NULL`); err != nil {
		return fmt.Errorf("complete the restore: %w", err)
	}
	return nil
}

// archive renames the file with the signed heads from before a restore. The restored chain ends before the last of
// these heads, so later heads are written to a new file.
func archive(auditDir, service string, at time.Time) error {
	from := filepath.Join(auditDir, service+".jsonl")
	to := filepath.Join(auditDir, fmt.Sprintf("%s.before-%d.jsonl", service, at.Unix()))
	err := os.Rename(from, to)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("archive the audit heads from before the restore: %w", err)
	}
	return nil
}
