package agent

import (
	"errors"
	"flag"
	"fmt"

	"github.com/signalbox-dev/signalbox/agent/controlplane"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/process"
)

const usage = `usage: signalbox-agent join [flags]   make this host a node; needs --join-token-file or SERVICE_AGENT_JOIN_TOKEN
       signalbox-agent run [flags]    run the agent
       signalbox-agent shim FOLDER    own the processes of one work; started by run
       signalbox-agent --version      print the version
`

// Main runs the command given as the first argument and returns the exit status. The status is 2 if the
// command is missing or unknown.
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

// statusRemoved is the exit status of the agent of a removed node. The unit of systemd does not restart it then.
const statusRemoved = 3

// status prints err and returns the exit status: 0 if err is nil or reports a request for help, statusRemoved for a
// removed node, otherwise 1.
func (p Process) status(err error) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	// Do not print after a second signal: the user wants the exit, and a blocked stderr would delay it.
	if !errors.Is(err, process.ErrKilled) {
		_, _ = fmt.Fprintln(p.Err, "signalbox-agent:", err)
	}
	if errors.Is(err, controlplane.ErrRemoved) {
		return statusRemoved
	}
	return 1
}
