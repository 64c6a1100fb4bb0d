package setup

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

const usage = `usage: signalbox-setup certs    [--dir DIR] [--group GROUP] [--root ROOT]
       signalbox-setup secrets  [--dir DIR] [--group GROUP] [--root ROOT]
       signalbox-setup database [--dir DIR] [--group GROUP] [--root ROOT] --admin-url-file FILE [--name signalbox]
       signalbox-setup kubernetes [--dir DIR] [--secrets PREFIX] [--keys] [--certs] [--admin-url-file FILE [--name signalbox]]
       signalbox-setup restored [--dir DIR] --audit-dir DIR... [--stopped-at TIME] [--revoke-all] [--admin NAME]
       signalbox-setup restored --data FOLDER [--admin-url-file FILE] [--name signalbox] [...]

certs     Creates DIR/ca (the internal CA) and DIR/tls/<service>.pem with its key.
secrets   Creates DIR/secrets: the keyring, the audit key and the key of signed URLs.
database  Creates the database, schemas and roles, and DIR/secrets/<service>.database-url.
kubernetes  In a pod: keeps what the commands secrets (--keys), certs (--certs) and database (--admin-url-file) create in
          the Secrets PREFIX-keys, PREFIX-ca, PREFIX-tls-<service> and PREFIX-database of the pod's namespace. DIR should
          be in memory. Secrets that exist are kept, except that certificates are renewed.
restored  Completes the restore of a database from a backup: revokes again what was revoked after the backup, and ends
          the maintenance mode in which the services started after the restore. The command may be run again.

DIR is /etc/signalbox by default. The user who runs the command owns the files; only with --group can others read them.
--group   Lets the services read the files (requires root). Shared files get the group GROUP, files of one service
          GROUP-<service>, the keyring GROUP-keyring and the audit key GROUP-audit.
--root    Prepares an installation below ROOT: DIR is below ROOT, and ROOT/etc/group defines the groups.
--audit-dir   A folder of SERVICE_AUDIT_DIR. Name the folders of all hosts, each with its own --audit-dir.
--data        The data folder of signalboxd, which must be stopped. Its audit folder is SERVICE_AUDIT_DIR of the
              environment, or else FOLDER/audit; if signalboxd has another one, pass --audit-dir. With --admin-url-file,
              its database is on the server that SERVICE_DATABASE_ADMIN_URL names.
--stopped-at  When the installation stopped (RFC 3339). It is needed if the folders are copies.
--revoke-all  Also revokes everything that can be revoked, and disables all users except the one that --admin names. It
              is needed if the journals have gaps. Nodes must join again.
--admin       An admin of the backup who stays an enabled admin and keeps the password, whatever was revoked after the
              backup. The password must be changed at the next login if it was changed after the backup.
`

// databaseTimeout is the time limit of the commands `database` and `kubernetes`, and restoredTimeout that of the command `restored`.
const (
	databaseTimeout = 2 * time.Minute
	restoredTimeout = time.Hour
)

// Main runs the command that the first argument names. It returns flag.ErrHelp if it has shown the usage. The function
// getenv returns a variable of the environment, or "".
func Main(ctx context.Context, args []string, getenv func(string) string, clk clock.Clock, out, errOut io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(errOut, usage)
		return flag.ErrHelp
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.SetOutput(errOut)
	f.Usage = func() { fmt.Fprint(errOut, usage) }
	dir := f.String("dir", "/etc/signalbox", "folder of the installation's settings")
	group := f.String("group", "", "Unix group that may read the shared files; prefix of the groups of the other files")
	root := f.String("root", "", "root folder of the installation to prepare")
	adminFile := f.String("admin-url-file", "", "file with the URL of a Postgres role that may create databases and roles")
	name := f.String("name", "signalbox", "name of the database")
	r, k := restoredFlags(f, getenv("SERVICE_AUDIT_DIR")), kubernetesFlags(f)
	if err := f.Parse(args[1:]); err != nil {
		return flag.ErrHelp
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	if args[0] == "restored" {
		ctx, cancel := context.WithTimeout(ctx, restoredTimeout)
		defer cancel()
		return r.run(ctx, filepath.Join(*root, *dir), *adminFile, *name, clk, out)
	}
	s := Setup{Dir: filepath.Join(*root, *dir), Clock: clk}
	if *group != "" {
		var err error
		if s.Readers, err = LookupReaders(*root, *group); err != nil {
			return err
		}
	}
	switch args[0] {
	case "certs":
		return s.Certs()
	case "secrets":
		return s.Secrets()
	case "kubernetes":
		ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
		defer cancel()
		return k.run(ctx, s, *adminFile, *name, getenv, out)
	case "database":
		if *adminFile == "" {
			return errors.New("--admin-url-file must name a file with the URL of a Postgres role that may create databases and roles")
		}
		ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
		defer cancel()
		return s.Database(ctx, *adminFile, *name)
	}
	fmt.Fprint(errOut, usage)
	return flag.ErrHelp
}
