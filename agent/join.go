package agent

import (
	"context"
	"errors"
	"fmt"
)

// Join makes this machine a node of the join token's fleet and prints how to start
// the agent. The token comes from the environment or a file, because every user of
// the machine can read a process's arguments.
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
	_, err = fmt.Fprintf(p.Out, `joined as %s, which is kept in %s
start the agent:  systemctl enable --now signalbox-agent
             or:  signalbox-agent run --data %[2]s
`, node.ID, s.Agent.Data)
	return err
}
