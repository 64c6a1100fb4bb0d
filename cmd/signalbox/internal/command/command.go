// Package command owns the choice of the command that an argument list names. It promises that an unknown command
// runs nothing and shows the usage of all commands instead.
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
