package agent

import (
	"context"
	"errors"
	"fmt"
)

// Join makes this machine a node of the join token's fleet and prints how to start the agent. It reads the token from
// the environment or a file, but never from an argument, because every user of the machine can read the arguments of a
// process.
func (p Process) Join() error {
	ctx := context.Background()
	s, a, o, err := p.open(ctx, commandJoin)
	if err != nil || a == nil {
		return err
	}
	node, err := a.Join(ctx)
	if err = errors.Join(err, o.Shutdown(ctx)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, `joined the fleet as node %s; its key and certificate are in %s
start the agent:  systemctl enable --now signalbox-agent
             or:  signalbox-agent run --data %[2]s
`, node.ID, s.Agent.Data)
	return err
}
