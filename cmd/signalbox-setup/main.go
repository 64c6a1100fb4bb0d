// Command signalbox-setup creates what separate services start from: the internal CA and a certificate for
// each service, the secrets of the installation, and the database with an owner role and a serving role
// for each schema. It may be run again: it keeps what exists, except that it renews certificates before they expire.
// After a restore of the database it revokes again what was revoked after the backup.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/signalbox-dev/signalbox/cmd/signalbox-setup/internal/setup"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

func main() {
	if err := setup.Main(context.Background(), os.Args[1:], os.Getenv, clock.Real(), os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "signalbox-setup:", err)
		}
		os.Exit(1)
	}
}
