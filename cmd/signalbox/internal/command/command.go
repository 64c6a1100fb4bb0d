// Package command owns the choice of the command that an argument list names. It promises that an unknown command
// runs nothing and shows the usage of all commands instead.
package command

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/audit"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/demo"
)

// Run runs the command that args name. It returns flag.ErrHelp if the usage was shown.
func Run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) error {
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case "demo":
		o, err := demo.Parse(args[1:], out, errOut)
		if err != nil {
			return err
		}
		return demo.Run(ctx, o)
	case "audit":
		o, err := audit.Parse(args[1:], in, out, errOut)
		if err != nil {
			return err
		}
		return audit.Verify(ctx, o)
	default:
		fmt.Fprint(errOut, demo.Usage, "\n", audit.Usage)
		return flag.ErrHelp
	}
}
