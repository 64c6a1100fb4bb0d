// Package command finds the command of an argument list and runs it. It promises that what is no command
// runs nothing, and that the usage of all of them is shown instead.
package command

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/audit"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/demo"
)

// Run runs the command that args name; flag.ErrHelp tells that the usage was shown.
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
