package daemon

import (
	"errors"
	"flag"
	"fmt"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/run"
)

const usage = `usage: signalbox-agent join [flags]   make this host a node: SERVICE_AGENT_JOIN_TOKEN, or --join-token-file
       signalbox-agent run [flags]    run the work of the node
       signalbox-agent shim FOLDER    used by run
       signalbox-agent --version      show the version
`

// Main does what the first argument names and answers the exit status: 2 where that is no command.
func (p Process) Main() int {
	command := ""
	if len(p.Args) > 0 {
		command, p.Args = p.Args[0], p.Args[1:]
	}
	var err error
	switch command {
	case "shim":
		return shim.Main(p.Args, clock.Real(), p.Err)
	case commandRun:
		err = p.Run()
	case commandJoin:
		err = p.Join()
	case "-version", "--version", "version":
		_, err = fmt.Fprintln(p.Out, p.Version)
	case "-h", "-help", "--help", "help":
		_, err = fmt.Fprint(p.Out, usage)
	default:
		_, _ = fmt.Fprint(p.Err, usage)
		return 2
	}
	return p.status(err)
}

// status tells of an error and answers the exit status; to be asked for help is none.
func (p Process) status(err error) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if !errors.Is(err, run.ErrKilled) { // who killed it knows, and a log that nobody reads would hold it up
		_, _ = fmt.Fprintln(p.Err, "signalbox-agent:", err)
	}
	return 1
}
