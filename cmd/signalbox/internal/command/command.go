// Package command owns the commands of signalbox: demo and audit. It promises that an unknown command runs nothing and
// shows the usage of all commands instead.
//
// demo starts a server on this machine and runs the whole loop with it, with every part real: it trains a small model,
// deploys it and sends it a question that was not in its training data. It fails if the model has not learned, if its
// response is wrong, or if the untrained weights give the right response in the same engine too. audit verifies an
// installation's audit through the same API as any admin. It fails if any row was edited, removed, moved or inserted,
// and if a service could not be reached.
package command

import (
	"context"
	"flag"
	"fmt"
	"io"
)

// Run runs the command that args name. It returns flag.ErrHelp if the usage was shown.
func Run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) error {
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case "demo":
		o, err := Parse(args[1:], out, errOut)
		if err != nil {
			return err
		}
		return RunDemo(ctx, o)
	case "audit":
		o, err := ParseAudit(args[1:], in, out, errOut)
		if err != nil {
			return err
		}
		return VerifyAudit(ctx, o)
	default:
		fmt.Fprint(errOut, Usage, "\n", AuditUsage)
		return flag.ErrHelp
	}
}
