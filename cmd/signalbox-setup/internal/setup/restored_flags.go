package setup

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/timestamp"
)

// restoredOptions are the flags of the command `restored`.
type restoredOptions struct {
	data, bin, cache, admin string
	journals                []string
	stopped                 time.Time
	revokeAll               bool
	auditDir                string // SERVICE_AUDIT_DIR of the environment, or empty
}

func restoredFlags(f *flag.FlagSet, auditDir string) *restoredOptions {
	o := &restoredOptions{auditDir: auditDir}
	f.StringVar(&o.data, "data", "", "data folder of signalboxd")
	f.StringVar(&o.bin, "postgres-bin", "", "folder of the programs postgres and initdb, for --data")
	f.StringVar(&o.cache, "postgres-cache", ".cache/postgres", "folder into which make demo downloads Postgres, for --data")
	f.StringVar(&o.admin, "admin", "", "username of an admin who stays enabled")
	f.BoolVar(&o.revokeAll, "revoke-all", false, "revoke everything that can be revoked")
	f.Func("audit-dir", "folder of SERVICE_AUDIT_DIR; may be repeated", func(v string) error {
		if _, err := os.Stat(v); err != nil {
			return err
		}
		o.journals = append(o.journals, v)
		return nil
	})
	f.Func("stopped-at", "time at which the installation stopped", func(v string) error {
		at, ok := timestamp.Parse(v)
		if !ok {
			return errors.New("not a time with an offset, such as " + timestamp.Example)
		}
		o.stopped = at
		return nil
	})
	return o
}

// run runs the command `restored`.
func (o *restoredOptions) run(ctx context.Context, dir, adminFile, name string, clk clock.Clock, out io.Writer) (err error) {
	r := Restored{
		Data: o.data, Bin: o.bin, Cache: o.cache, Name: name, Journals: o.journals, Stopped: o.stopped,
		RevokeAll: o.revokeAll, Admin: o.admin, Clock: clk, Out: out,
	}
	switch {
	case o.revokeAll && o.admin == "":
		return errors.New("--revoke-all disables all users; name an admin who stays enabled with --admin")
	case o.data != "" && len(o.journals) == 0:
		// signalboxd uses the same default.
		r.Journals = []string{cmp.Or(o.auditDir, filepath.Join(o.data, "audit"))}
	case len(o.journals) == 0:
		return errors.New("--audit-dir must name the folder of SERVICE_AUDIT_DIR")
	}
	if adminFile != "" {
		raw, err := os.ReadFile(adminFile)
		if err != nil {
			return fmt.Errorf("read the file with the admin's URL: %w", err)
		}
		r.Data, r.AdminURL = "", strings.TrimSpace(string(raw))
	} else if o.data == "" {
		if r.URLs, err = (Setup{Dir: dir}).ownerURLs(); err != nil {
			return err
		}
	}
	return r.Run(ctx)
}
