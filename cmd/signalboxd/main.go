// Command signalboxd runs all of Signalbox in one process, for one machine.
package main

import (
	"os"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/cmd/signalboxd/internal/allinone"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		os.Exit(shim.Main(os.Args[2:], clock.Real(), os.Stderr))
	}
	os.Exit(allinone.Main(os.Args[1:], os.Stdout, os.Stderr))
}
