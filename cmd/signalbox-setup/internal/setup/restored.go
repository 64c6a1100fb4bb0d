package setup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/localfile"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/pg/local"
)

// Restored completes the restore of a database from a backup: it revokes again what was revoked after the backup.
type Restored struct {
	// Data is the data folder of signalboxd with its own Postgres server, which must not be running. Otherwise AdminURL
	// is the URL of a Postgres role with access to all schemas, or URLs has the URL of each schema's owner.
	Data, Bin, Cache string
	AdminURL         string
	URLs             map[string]string
	Name             string // name of the database; not used with URLs

	// Journals are the folders named by SERVICE_AUDIT_DIR, of all hosts.
	Journals []string
	// Stopped is when the installation stopped, or zero.
	Stopped time.Time
	// RevokeAll revokes everything that can be revoked. If it is set, the journals may have gaps.
	RevokeAll bool
	// Admin is the username of an admin who stays enabled and keeps the role and the password. It may be empty unless
	// RevokeAll is set.
	Admin string

	Clock clock.Clock
	Out   io.Writer
}

// Run completes the restore of every schema. If it fails, it can be run again.
func (r Restored) Run(ctx context.Context) error {
	if r.Data != "" {
		stop, err := r.startServer(ctx)
		if err != nil {
			return err
		}
		defer stop()
	}
	writes, err := r.lastWrites(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "Reading the journals in %s.\n", strings.Join(r.Journals, ", "))
	times := backups(writes)
	journals, err := r.journals(times)
	if err != nil {
		return err
	}
	err = r.each(ctx, func(service string, conn *pgx.Conn) error {
		to := audit.Restore{Journal: journals[service], Backup: writes[service].At, Everything: r.RevokeAll}
		done, err := r.settle(ctx, conn, service, to)
		if err != nil {
			return err
		}
		fmt.Fprintf(r.Out, "%s: the backup contains changes up to %s; %d revocations after the backup, %d revoked again\n",
			service, times[service].UTC().Format(time.RFC3339), done.Replayed, done.Revoked)
		return nil
	})
	if err != nil {
		return err
	}
	// No service may start before all schemas are settled.
	if err := r.each(ctx, func(_ string, conn *pgx.Conn) error { return audit.CompleteRestore(ctx, conn) }); err != nil {
		return err
	}
	fmt.Fprintln(r.Out, "The restore is complete. The services leave maintenance by themselves, or can be started.")
	return nil
}

// startServer starts the Postgres server of the data folder, and sets AdminURL. Until stop is called, it holds the lock
// of the data folder, so that signalboxd cannot start on a database that is not settled yet.
func (r *Restored) startServer(ctx context.Context) (stop func(), err error) {
	if err := r.checkFolder(); err != nil {
		return nil, err
	}
	lock, err := localfile.LockFolder(filepath.Join(r.Data, "lock"))
	if held, ok := errors.AsType[*localfile.FolderLockedError](err); ok {
		return nil, r.inUse(held.Holder.String())
	}
	if err != nil {
		return nil, fmt.Errorf("lock the data folder %s: %w", r.Data, err)
	}
	defer func() {
		if err != nil {
			_ = lock.Close()
		}
	}()
	bin, err := local.Find(r.Bin, r.Cache)
	if err != nil {
		return nil, err
	}
	server, err := local.Start(ctx, local.Config{BinDir: bin, Dir: filepath.Join(r.Data, "postgres"), Entropy: rand.Reader})
	if errors.Is(err, local.ErrInUse) {
		return nil, r.inUse("")
	}
	if err != nil {
		return nil, fmt.Errorf("start Postgres: %w", err)
	}
	r.AdminURL = server.AdminURL().Reveal()
	return func() { _ = server.Stop(context.WithoutCancel(ctx)); _ = lock.Close() }, nil
}

func (r *Restored) inUse(holder string) error {
	return fmt.Errorf("signalboxd uses the data folder %s%s; stop it first, with `systemctl stop signalboxd` if systemd started it, otherwise with `signalboxd stop --data %s`",
		r.Data, holder, r.Data)
}

// checkFolder rejects a folder without a database, in which Postgres would create an empty one, and a folder of another
// user, who could not read the files of the database afterwards.
func (r *Restored) checkFolder() error {
	cluster := filepath.Join(r.Data, "postgres", "data")
	for _, path := range []string{r.Data, cluster} {
		var info syscall.Stat_t
		if err := syscall.Stat(path, &info); err != nil {
			return fmt.Errorf("the data folder %s has no database: read %s: %w", r.Data, path, err)
		}
		if path == r.Data && int(info.Uid) != os.Geteuid() {
			return fmt.Errorf("the data folder %s belongs to the user with the id %d; run this command as that user, for example with `runuser -u signalboxd --`", r.Data, info.Uid)
		}
	}
	if _, err := os.Stat(filepath.Join(cluster, "PG_VERSION")); err != nil {
		return fmt.Errorf("the data folder %s has no complete database: %w; copy the backup first", r.Data, err)
	}
	return nil
}

// connect opens a connection that uses the schema of a service.
func (r Restored) connect(ctx context.Context, service string) (*pgx.Conn, error) {
	to := r.URLs[service]
	if r.AdminURL != "" {
		u, err := url.Parse(r.AdminURL)
		if err != nil {
			return nil, errors.New("the admin's Postgres URL is not valid") // the error may contain the password
		}
		u.Path = "/" + r.Name
		to = u.String()
	}
	conn, err := pg.Connect(ctx, to, map[string]string{"search_path": service})
	if err != nil {
		return nil, fmt.Errorf("connect to the schema %s: %w", service, err)
	}
	return conn, nil
}

// each calls fn for each service, with a connection that uses the schema of the service.
func (r Restored) each(ctx context.Context, fn func(service string, conn *pgx.Conn) error) error {
	for _, service := range Schemas() {
		conn, err := r.connect(ctx, service)
		if err != nil {
			return err
		}
		err = fn(service, conn)
		pg.CloseConn(ctx, conn)
		if err != nil {
			return fmt.Errorf("%s: %w", service, err)
		}
	}
	return nil
}

// lastWrites returns the last change of each schema.
func (r Restored) lastWrites(ctx context.Context) (map[string]audit.LastWrite, error) {
	all := map[string]audit.LastWrite{}
	return all, r.each(ctx, func(service string, conn *pgx.Conn) (err error) {
		all[service], err = audit.ReadLastWrite(ctx, conn)
		if err != nil {
			return fmt.Errorf("%w; if the schema is older than this program, start the service once, so that it migrates the schema", err)
		}
		return nil
	})
}

// backups returns, for each service, the time of the last change in any schema of its database. The schemas of a
// database are in one backup. Separate services may have separate databases, and only one of them was restored.
func backups(writes map[string]audit.LastWrite) map[string]time.Time {
	newest := map[string]time.Time{}
	for _, w := range writes {
		if w.At.After(newest[w.Database]) {
			newest[w.Database] = w.At
		}
	}
	out := map[string]time.Time{}
	for service, w := range writes {
		out[service] = newest[w.Database]
	}
	return out
}

// journals reads the journals. It returns an error if they have a gap and RevokeAll is not set.
func (r Restored) journals(backups map[string]time.Time) (map[string]audit.Journal, error) {
	all, gaps := map[string]audit.Journal{}, []string{}
	for _, service := range Schemas() {
		j, err := audit.ReadJournals(service, r.Journals...)
		if err != nil {
			return nil, err
		}
		all[service] = j
		if gap := j.Gap(backups[service], r.Stopped); gap != "" {
			gaps = append(gaps, service+": "+gap)
		}
	}
	if len(gaps) > 0 && !r.RevokeAll {
		return nil, fmt.Errorf("the journals in %s have gaps; add the folders of all hosts with --audit-dir, or revoke everything with --revoke-all:\n  %s",
			strings.Join(r.Journals, ", "), strings.Join(gaps, "\n  "))
	}
	return all, nil
}

// settle revokes again what was revoked in one schema. It sets what to does not contain yet.
func (r Restored) settle(ctx context.Context, conn *pgx.Conn, service string, to audit.Restore) (done audit.Restored, err error) {
	to.Audit = audit.NewLog(r.Clock, id.NewSource(r.Clock, rand.Reader), "signalbox-setup")
	err = pg.InTx(ctx, conn, func(ctx context.Context, tx pgx.Tx) error {
		if to.Keep, err = r.kept(ctx, tx, service); err != nil {
			return err
		}
		done, err = to.Settle(ctx, tx)
		if err != nil || service != "auth" {
			return err
		}
		return requireAdmin(ctx, tx)
	})
	return done, err
}

// kept returns the id of the admin who stays enabled, or "".
func (r Restored) kept(ctx context.Context, tx pgx.Tx, service string) (accountID string, err error) {
	if r.Admin == "" || service != "auth" {
		return "", nil
	}
	err = tx.QueryRow(ctx, `SELECT id FROM account WHERE username = $1 AND role = 'admin' AND disabled_at IS NULL`, r.Admin).Scan(&accountID)
	if err != nil {
		return "", fmt.Errorf("find the enabled admin %q, which --admin must name: %w", r.Admin, err)
	}
	return accountID, nil
}

// requireAdmin returns an error if users exist but no enabled admin can sign in, with a password or with a provider. It
// accepts a database without users, because the service then creates the first admin.
func requireAdmin(ctx context.Context, tx pgx.Tx) error {
	var enters bool
	err := tx.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM account) OR EXISTS (SELECT FROM account a WHERE role = 'admin' AND disabled_at IS NULL
		AND (password_hash <> '' OR EXISTS (SELECT FROM oidc_identity i WHERE i.account_id = a.id)))`).Scan(&enters)
	if err != nil {
		return fmt.Errorf("count the admins who can sign in: %w", err)
	}
	if !enters {
		return errors.New("no admin could sign in after the revocations, so nothing was changed; " +
			"name an admin of the backup with --admin, who stays enabled and keeps the password")
	}
	return nil
}

// ownerURLs reads the URLs of the schemas' owners, which the command `database` has written.
func (s Setup) ownerURLs() (map[string]string, error) {
	urls := map[string]string{}
	for _, service := range Schemas() {
		raw, err := os.ReadFile(s.in("secrets", service+ownerURLSuffix))
		if err != nil {
			return nil, fmt.Errorf("read the URL of the owner of schema %s: %w", service, err)
		}
		urls[service] = strings.TrimSpace(string(raw))
	}
	return urls, nil
}
