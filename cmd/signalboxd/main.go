// Command signalboxd is all of Signalbox in one process, for one machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/cmd/signalboxd/internal/single"
	"github.com/signalbox-dev/signalbox/internal/version"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		os.Exit(shim.Main(os.Args[2:], clock.Real(), os.Stderr))
	}
	if err := realMain(os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "signalboxd:", err)
		}
		os.Exit(1)
	}
}

func realMain(args []string) error {
	o := single.Options{Out: os.Stdout, Log: os.Stderr, Flags: map[string]string{}}
	f := flag.NewFlagSet("signalboxd", flag.ContinueOnError)
	f.Func("data", "folder that keeps everything (SERVICE_DATA)", func(v string) error { o.Flags["SERVICE_DATA"] = v; return nil })
	f.Func("listen", "address to serve on (SERVICE_LISTEN)", func(v string) error { o.Flags["SERVICE_LISTEN"] = v; return nil })
	f.StringVar(&o.ReadyFile, "ready-file", "", "file to write once it serves")
	f.BoolVar(&o.PrintConfig, "print-config", false, "show every setting, redacted, and end")
	showVersion := f.Bool("version", false, "show the version and end")
	if err := f.Parse(args); err != nil || *showVersion {
		if err == nil {
			fmt.Println(version.Server())
		}
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the own program: %w", err)
	}
	o.Exec = []string{self, "shim"}
	return single.Run(context.Background(), o)
}
