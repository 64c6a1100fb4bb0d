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

certs     Creates DIR/ca (the internal CA) and DIR/tls/<service>.pem with its key.
secrets   Creates DIR/secrets: the keyring, the audit key and the key of signed URLs.
database  Creates the database, schemas and roles, and DIR/secrets/<service>.database-url.

DIR is /etc/signalbox by default. The user who runs the command owns the files; only with --group can others read them.
--group   Lets the services read the files (requires root). Shared files get the group GROUP, files of one service
          GROUP-<service>, the keyring GROUP-keyring and the audit key GROUP-audit.
--root    Prepares an installation below ROOT: DIR is below ROOT, and ROOT/etc/group defines the groups.
`

// databaseTimeout limits how long creating roles and schemas may take.
const databaseTimeout = 2 * time.Minute

// Main runs the command that the first argument names. It returns flag.ErrHelp if it has shown the usage.
func Main(ctx context.Context, args []string, clk clock.Clock, errOut io.Writer) error {
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
	if err := f.Parse(args[1:]); err != nil {
		return flag.ErrHelp
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", f.Arg(0))
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
