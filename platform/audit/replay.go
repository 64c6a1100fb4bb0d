package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Journal is the combined content of the journals of one service.
type Journal struct {
	Revocations []Revocation // sorted by Seq, without duplicates
	Spans       []Span
}

// Span is a period for which a journal contains every revocation.
type Span struct {
	From, To time.Time
	// Copied is true if the journal's folder is a copy. The original may have continued after To.
	Copied bool
}

// ReadJournals reads the journals of a service in the given folders, each a SERVICE_AUDIT_DIR.
func ReadJournals(service string, auditDirs ...string) (Journal, error) {
	found, out := map[int64]Revocation{}, Journal{}
	for _, auditDir := range auditDirs {
		dirs, err := journalDirs(auditDir, service)
		if err != nil {
			return Journal{}, err
		}
		for _, dir := range dirs {
			s, err := readStamp(dir)
			if err != nil {
				return Journal{}, err
			}
			if s == nil {
				continue
			}
			now, err := originOf(dir, false)
			out.Spans = append(out.Spans, Span{From: s.Since, To: s.At, Copied: err != nil || now != s.Origin})
			parts, err := segments(dir)
			if err != nil {
				return Journal{}, err
			}
			for _, part := range parts {
				if err := lines(part.path, func(r Revocation) { found[r.Seq] = r }); err != nil {
					return Journal{}, err
				}
			}
		}
	}
	for _, seq := range slices.Sorted(maps.Keys(found)) {
		out.Revocations = append(out.Revocations, found[seq])
	}
	return out, nil
}

// stampLag is the maximum time between the last stamp and the moment at which the installation stopped.
const stampLag = 5 * time.Second

// leftBehind is how long before the last change a journal may end without being taken for one that was left behind. A
// process that stops may write for some seconds after the last entry in its journal, and separate services stop one after
// another.
const leftBehind = time.Minute

// Gap returns the reason why the journals may lack revocations between the time of the backup and the time at which the
// installation stopped, or "" if they lack none. The parameter stopped is zero if that time is unknown, which is a gap
// if the newest journal is a copy. An original that ends before the backup or before another journal does not count: it
// was left behind, for example when SERVICE_AUDIT_DIR was moved to another disk.
func (j Journal) Gap(backup, stopped time.Time) string {
	if len(j.Spans) == 0 {
		return "there is no journal"
	}
	spans := slices.SortedFunc(slices.Values(j.Spans), func(a, b Span) int { return a.From.Compare(b.From) })
	ends := slices.MaxFunc(spans, func(a, b Span) int { return a.To.Compare(b.To) }).To
	if ends.Add(leftBehind).Before(backup) {
		return fmt.Sprintf("the newest journal ends at %s, but the backup contains changes up to %s, so later journals are in another folder",
			text(ends), text(backup))
	}
	reached, original := backup, false
	for _, s := range spans {
		if s.From.After(reached) {
			return fmt.Sprintf("no journal covers the time from %s to %s", text(reached), text(s.From))
		}
		if s.To.After(reached) {
			reached = s.To
		}
		original = original || !s.Copied && !s.To.Add(leftBehind).Before(ends)
	}
	switch {
	case !stopped.IsZero() && stopped.After(reached.Add(stampLag)):
		return fmt.Sprintf("the journal ends at %s, but the installation stopped at %s", text(reached), text(stopped))
	case stopped.IsZero() && !original:
		return fmt.Sprintf("the journal is a copy that ends at %s; pass the time at which the installation stopped with --stopped-at", text(reached))
	}
	return ""
}

func text(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Restore holds what Settle needs to complete the restore of one schema.
type Restore struct {
	Journal Journal
	// Backup is the LastWrite of the schema. The backup contains what was revoked before, even if retention has deleted
	// the row, so Settle skips what the journal has from before that time.
	Backup time.Time
	// Everything makes Settle revoke all that can be revoked. Set it if the journals have a gap.
	Everything bool
	// Keep is the id of the user who remains an enabled admin with a password, whatever the journal contains, or "".
	Keep  string
	Audit *Log
}

// Restored is the result of Restore.Settle.
type Restored struct {
	Replayed int // revocations that the journal had and the database lacked
	Revoked  int // those whose subject was still valid in the database and is now revoked
}

// Settle revokes what was revoked after the backup, and raises the epochs that other processes may have seen. It may be
// called again. tx must be a transaction of the schema's owner.
func (r Restore) Settle(ctx context.Context, tx pgx.Tx) (out Restored, err error) {
	missing, err := missing(ctx, tx, r.afterBackup())
	if err != nil {
		return out, err
	}
	out.Replayed = len(missing)
	// A dump that was loaded into another server contains transaction numbers that this server has not reached. Rows with
	// such a number would be read again by every Revocations.Settle.
	if _, err := tx.Exec(ctx, `UPDATE revocation SET made_in = pg_current_xact_id() WHERE made_in > pg_current_xact_id()`); err != nil {
		return out, fmt.Errorf("renumber the transactions of revocations: %w", err)
	}
	// Numbers that the journal contains must not be used again.
	if _, err := tx.Exec(ctx, `SELECT setval(pg_get_serial_sequence('revocation', 'seq'), max(seq)) FROM revocation HAVING max(seq) > 0`); err != nil {
		return out, fmt.Errorf("advance the sequence of revocation numbers: %w", err)
	}
	if out.Revoked, err = r.revokeAgain(ctx, tx, passwordsLast(net(missing))); err != nil {
		return out, err
	}
	if r.Everything {
		if err := ifDefined(ctx, tx, "revoke_everything(text)", `SELECT revoke_everything($1)`, r.Keep); err != nil {
			return out, err
		}
	}
	if err := ifDefined(ctx, tx, "raise_epochs()", `SELECT raise_epochs()`); err != nil {
		return out, err
	}
	// The rows that Settle inserts must not count as changes in the backup when Settle is called again.
	if _, err := tx.Exec(ctx, `UPDATE continuity SET backup_at = $1`, r.Backup); err != nil {
		return out, fmt.Errorf("store the time of the backup: %w", err)
	}
	return out, r.Audit.Record(ctx, tx, Entry{
		Action: "installation.restored", TargetKind: "installation", TargetID: "installation",
		After: map[string]any{"replayed": out.Replayed, "revoked": out.Revoked, "everything_revoked": r.Everything, "kept": r.Keep},
	})
}

// backupLag is the maximum time between a revocation and the commit of its transaction, and the maximum difference of the
// clocks of the services and of the database.
const backupLag = time.Hour

// afterBackup returns the revocations that the backup may lack.
func (r Restore) afterBackup() []Revocation {
	return slices.DeleteFunc(slices.Clone(r.Journal.Revocations), func(one Revocation) bool { return one.At.Before(r.Backup.Add(-backupLag)) })
}

// missing inserts the revocations that the database does not have, and returns them.
func missing(ctx context.Context, tx pgx.Tx, found []Revocation) ([]Revocation, error) {
	var all []Revocation
	for part := range slices.Chunk(found, page) {
		seqs, kinds, subjects, times := columnsOf(part)
		rows, err := tx.Query(ctx, `INSERT INTO revocation (seq, kind, subject, at) OVERRIDING SYSTEM VALUE
			SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::timestamptz[]) ON CONFLICT (seq) DO NOTHING RETURNING seq`,
			seqs, kinds, subjects, times)
		if err != nil {
			return nil, fmt.Errorf("store the revocations of the journal: %w", err)
		}
		fresh, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return nil, fmt.Errorf("store the revocations of the journal: %w", err)
		}
		for _, one := range part {
			if slices.Contains(fresh, one.Seq) {
				all = append(all, one)
			}
		}
	}
	return all, nil
}

func columnsOf(all []Revocation) (seqs []int64, kinds, subjects []string, times []time.Time) {
	for _, r := range all {
		seqs, kinds, subjects, times = append(seqs, r.Seq), append(kinds, r.Kind), append(subjects, r.Subject), append(times, r.At)
	}
	return seqs, kinds, subjects, times
}

// enabled is the suffix of the kinds that undo an earlier revocation of the same subject: user_enabled undoes user.
const enabled = "_enabled"

// net returns the revocations that are still in force. It removes those that were undone, and the entries that undo
// them.
func net(all []Revocation) []Revocation {
	last := map[[2]string]int64{}
	for _, r := range all {
		if kind, ok := strings.CutSuffix(r.Kind, enabled); ok {
			last[[2]string{kind, r.Subject}] = r.Seq
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(r Revocation) bool {
		return strings.HasSuffix(r.Kind, enabled) || r.Seq < last[[2]string{r.Kind, r.Subject}]
	})
}

// passwordsLast moves the revocations of passwords to the end. An admin keeps a password if no other admin has one, so
// the admins who lose their role must have lost it before.
func passwordsLast(all []Revocation) []Revocation {
	var last []Revocation
	all = slices.DeleteFunc(all, func(r Revocation) bool {
		if r.Kind == "password" {
			last = append(last, r)
		}
		return r.Kind == "password"
	})
	return append(all, last...)
}

func (r Restore) revokeAgain(ctx context.Context, tx pgx.Tx, all []Revocation) (revoked int, err error) {
	for part := range slices.Chunk(all, page) {
		_, kinds, subjects, _ := columnsOf(part)
		var n int
		err := tx.QueryRow(ctx, `SELECT count(*) FILTER (WHERE revoke_again(kind, subject, $3))
			FROM unnest($1::text[], $2::text[]) AS r (kind, subject)`, kinds, subjects, r.Keep).Scan(&n)
		if err != nil {
			return 0, fmt.Errorf("revoke what was revoked after the backup: %w", err)
		}
		revoked += n
	}
	return revoked, nil
}

// ifDefined runs a statement if the schema has the function that it calls.
func ifDefined(ctx context.Context, tx pgx.Tx, function, sql string, args ...any) error {
	var defined bool
	if err := tx.QueryRow(ctx, `SELECT to_regprocedure($1) IS NOT NULL`, function).Scan(&defined); err != nil {
		return fmt.Errorf("find the function %s: %w", function, err)
	}
	if !defined {
		return nil
	}
	if _, err := tx.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("call %s: %w", function, err)
	}
	return nil
}
