package command

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/credential"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/demo"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/settings"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// devContext is the context of the login to the server of dev.
const devContext = "dev"

func (t *tool) dev() *cobra.Command {
	o := demo.Options{Out: t.Out, Clock: t.Clock}
	cmd := &cobra.Command{
		Use: "dev", GroupID: groupTool, Short: "Start a server on this machine, with sample data and a login", Args: noArguments,
		Long: `Start a server with its default settings and a sample dataset on this machine, and serve until Ctrl-C. All data stays in the folder of --data.

The commands of this machine are logged in to the server as admin, in the context dev, which becomes the current one if there is none.`,
		Example: "signalbox dev\nsignalbox submit --demo --follow",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.completeServer(cmd, &o); err != nil {
				return err
			}
			return demo.Dev(cmd.Context(), o, t.keepDevLogin)
		},
	}
	addServer(cmd, &o, ".signalbox/dev")
	return cmd
}

// keepDevLogin stores the login to the server of dev, and returns the words with which a command uses it.
func (t *tool) keepDevLogin(_ context.Context, address string, token secret.String) (string, error) {
	program := cmp.Or(t.Program, "signalbox")
	dir, config, err := t.loadConfig()
	if err != nil {
		return "", err
	}
	before := config.Contexts[devContext]
	store, _, err := credential.Choose(cmp.Or(t.Getenv(settings.EnvStore), before.Store), dir)
	if err != nil {
		return "", err
	}
	login := credential.Credential{Server: address, User: "admin", Token: token, ExpiresAt: credential.Expiry(token)}
	if err := t.storeLogin(dir, settings.Chosen{Name: devContext, Server: address}, store, login, false); err != nil {
		return "", err
	}
	if config.Current != "" && config.Current != devContext || t.Getenv(settings.EnvContext) != "" {
		program += " --context " + devContext
	}
	return program, nil
}
