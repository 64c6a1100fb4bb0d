// Command signalboxd runs all of Signalbox in one process, for one machine.
package main

import (
	"os"
	"runtime/debug"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/cmd/signalboxd/internal/allinone"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// gcPercent lets the heap grow to four times the memory in use. A small installation uses some 30 MB.
const gcPercent = 300

func main() {
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		os.Exit(shim.Main(os.Args[2:], clock.Real(), os.Stderr))
	}
	if os.Getenv("GOGC") == "" {
		// A call leaves much garbage and keeps little memory. With the default, garbage collection takes a tenth of a
		// call's time.
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(allinone.Main(os.Args[1:], os.Stdout, os.Stderr))
}
