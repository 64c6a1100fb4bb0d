// Package command owns the commands of signalbox: demo and audit. It promises that an unknown command runs nothing and
// shows the usage of all commands instead.
//
// demo starts a server on this machine and uses it as a user would, with real parts only: it trains a small model,
// deploys it and sends it a question that was not in its training data. It fails if the model has not learned, if its
// response is wrong, or if the untrained weights give the right response in the same engine. audit verifies the audit
// of an installation through the API, with the token of an admin. It fails if any row was edited, removed, moved or
// inserted, or if a service cannot be reached.
package command

import (
	"context"
	"flag"
	"fmt"
	"io"
)

// Run runs the command in args[0] with the other arguments. It returns flag.ErrHelp if the usage was shown.
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
