// Command signalbox-agent runs work on a host for a Signalbox control plane:
// `join` makes the host a node of a fleet, `run` is the agent, `shim` the owner of
// one work's processes, called by it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/signalbox-dev/signalbox/agent/daemon"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/internal/version"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/run"
)

const usage = `usage: signalbox-agent join [flags]   make this host a node: SERVICE_AGENT_JOIN_TOKEN, or --join-token-file
       signalbox-agent run [flags]    run the work of the node
       signalbox-agent shim FOLDER    used by run
       signalbox-agent --version      show the version
`

func main() { os.Exit(realMain(os.Args[1:], os.Stdout, os.Stderr)) }

// realMain answers the exit status: 2 where the command is none.
func realMain(args []string, out, errOut io.Writer) int {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	p := daemon.Process{Args: args, Settings: conf.OS(), Environ: os.Environ(), Out: out, Err: errOut, Version: version.Server()}
	var err error
	switch command {
	case "shim":
		return shim.Main(args, clock.Real(), errOut)
	case "run":
		err = p.Run()
	case "join":
		err = p.Join()
	case "-version", "--version", "version":
		_, err = fmt.Fprintln(out, p.Version)
	case "-h", "-help", "--help", "help":
		_, err = fmt.Fprint(out, usage)
	default:
		_, _ = fmt.Fprint(errOut, usage)
		return 2
	}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if !errors.Is(err, run.ErrKilled) { // who killed it knows, and a log that nobody reads would hold it up
		_, _ = fmt.Fprintln(errOut, "signalbox-agent:", err)
	}
	return 1
}
