package command

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/demo"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
)

func (t *tool) demo() *cobra.Command {
	o := demo.Options{Out: t.Out, Clock: t.Clock}
	cmd := &cobra.Command{
		Use: "demo", GroupID: groupTool, Short: "Train, deploy and call a small model on this machine", Args: noArguments,
		Long: `Start a server, train a tiny chat model for real, deploy it and send it a question.

The server keeps running until Ctrl-C, unless --once is set.`,
		Example: "signalbox demo\nsignalbox demo --once --data /tmp/demo --listen 127.0.0.1:0",
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Reject empty values: they usually come from an unset shell variable.
			for name, value := range map[string]string{"data": o.Data, "listen": o.Listen, "signalboxd": o.Server} {
				if strings.TrimSpace(value) == "" {
					return session.Usage("--%s must not be empty", name)
				}
			}
			return demo.Run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Once, "once", false, "exit when the demo has finished and leave no process behind; status 0 if every step succeeded")
	f.StringVar(&o.Data, "data", ".signalbox/demo", "folder for all data")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:8080", "address to serve on")
	f.StringVar(&o.Server, "signalboxd", "bin/signalboxd", "path of signalboxd")
	return cmd
}
