// Command signalbox-agent runs work on a host for a Signalbox control plane:
// `run` is the agent, `shim` the owner of one work's processes, called by it.
package main

import (
	"fmt"
	"os"

	"github.com/signalbox-dev/signalbox/agent/daemon"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
)

// version is set by the linker.
var version = "dev"

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "shim" {
		os.Exit(shim.Main(args[1:], clock.Real(), os.Stderr))
	}
	if len(args) == 0 || args[0] != "run" {
		_, _ = fmt.Fprintln(os.Stderr, "usage: signalbox-agent run [flags] | signalbox-agent shim FOLDER")
		os.Exit(2)
	}
	p := daemon.Process{Args: args[1:], Settings: conf.OS(), Environ: os.Environ(), Out: os.Stdout, Err: os.Stderr, Version: version}
	if err := p.Run(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "signalbox-agent:", err)
		os.Exit(1)
	}
}
