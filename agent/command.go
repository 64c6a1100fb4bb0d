package agent

import (
	"errors"
	"flag"
	"fmt"

	"github.com/signalbox-dev/signalbox/agent/controlplane"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/agent/slurm/rank"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/process"
)

const usage = `usage: signalbox-agent join [flags]   make this host a node; needs --join-token-file or SERVICE_AGENT_JOIN_TOKEN
       signalbox-agent run [flags]    run the agent
       signalbox-agent shim FOLDER    own the processes of one work; started by run
       signalbox-agent rank FOLDER    run one rank of an attempt; started by Slurm
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
	case "rank":
		return rank.Process{Args: p.Args, Environ: p.Environ, Clock: clock.Real(), Err: p.Err}.Main()
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

// statusRejoin is the exit status of an agent that must join again, because its node was removed or its certificate has
// expired. The systemd unit does not restart the agent after this status.
const statusRejoin = 3

// status prints err and returns the exit status: 0 if err is nil or reports a request for help, statusRejoin if the agent
// must join again, otherwise 1.
func (p Process) status(err error) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	// Do not print after a second signal: the user wants the process to exit at once, and a blocked stderr would delay
	// it.
	if !errors.Is(err, process.ErrKilled) {
		_, _ = fmt.Fprintln(p.Err, "signalbox-agent:", err)
	}
	if errors.Is(err, controlplane.ErrRemoved) || errors.Is(err, controlplane.ErrCertificateExpired) {
		return statusRejoin
	}
	return 1
}
