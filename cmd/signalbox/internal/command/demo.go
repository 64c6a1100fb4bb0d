package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
			if err := t.completeServer(cmd, &o); err != nil {
				return err
			}
			return demo.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.Once, "once", false, "exit when the demo has finished and leave no process behind; status 0 if every step succeeded")
	addServer(cmd, &o, ".signalbox/demo")
	return cmd
}

// addServer adds the flags of a server on this machine.
func addServer(cmd *cobra.Command, o *demo.Options, data string) {
	f := cmd.Flags()
	f.StringVar(&o.Data, "data", data, "folder for all data")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:8080", "address to serve on")
	f.StringVar(&o.Server, "signalboxd", "", "path of signalboxd (default: beside signalbox, or in PATH)")
}

// completeServer checks the flags of a server on this machine and finds its program.
func (t *tool) completeServer(cmd *cobra.Command, o *demo.Options) error {
	// Reject empty values: they usually come from an unset shell variable.
	for name, value := range map[string]string{"data": o.Data, "listen": o.Listen, "signalboxd": o.Server} {
		if strings.TrimSpace(value) == "" && (name != "signalboxd" || cmd.Flags().Changed(name)) {
			return session.Usage("--%s must not be empty", name)
		}
	}
	if o.Server != "" {
		return nil
	}
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find signalboxd: %w; name it with --signalboxd", err)
	}
	o.Server = filepath.Join(filepath.Dir(own), "signalboxd")
	if _, err := os.Stat(o.Server); err == nil {
		return nil
	}
	if o.Server, err = exec.LookPath("signalboxd"); err != nil {
		return session.Usage("signalboxd is neither beside signalbox nor in PATH; name it with --signalboxd")
	}
	return nil
}
