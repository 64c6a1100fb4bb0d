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

certs     makes DIR/ca (the internal authority) and DIR/tls/<service>.pem with its key
secrets   makes DIR/secrets: the keyring, the audit's key and the key of signed URLs
database  makes the database, schemas and roles, and DIR/secrets/<service>.database-url

DIR is /etc/signalbox. Files belong to who runs the command, and nobody else reads them without --group:
--group   lets the services read, as root: what all share is given to GROUP, and what one service alone needs
          to GROUP-<service>, the keyring to GROUP-keyring, the audit's key to GROUP-audit
--root    prepares an installation below ROOT: DIR lies in it, and its etc/group names the groups
`

// databaseTimeout is what making roles and schemas may take.
const databaseTimeout = 2 * time.Minute

// Main does what the first argument names; flag.ErrHelp where the usage was shown.
func Main(ctx context.Context, args []string, clk clock.Clock, errOut io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(errOut, usage)
		return flag.ErrHelp
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.SetOutput(errOut)
	f.Usage = func() { fmt.Fprint(errOut, usage) }
	dir := f.String("dir", "/etc/signalbox", "folder of the installation's settings")
	group := f.String("group", "", "group of the services, which lets them read")
	root := f.String("root", "", "folder of an installation that is prepared from outside")
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
			return errors.New("database needs --admin-url-file")
		}
		ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
		defer cancel()
		return s.Database(ctx, *adminFile, *name)
	}
	fmt.Fprint(errOut, usage)
	return flag.ErrHelp
}
