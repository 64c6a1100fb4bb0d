// Command signalbox-agent runs trainings and engines on a host for a Signalbox control plane. `join` makes the host a
// node of a fleet, and `run` runs the agent. The agent itself starts `shim`, which owns the processes of one training
// or engine.
package main

import (
	"os"

	"github.com/signalbox-dev/signalbox/agent"
	"github.com/signalbox-dev/signalbox/internal/version"
	"github.com/signalbox-dev/signalbox/platform/conf"
)

func main() {
	os.Exit(agent.Process{
		Args: os.Args[1:], Settings: conf.OS(), Environ: os.Environ(), In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Version: version.Server(),
	}.Main())
}
