package command

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/credential"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/demo"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/settings"
	"github.com/signalbox-dev/signalbox/platform/localfile"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

func (t *tool) dev() *cobra.Command {
	o := demo.Options{Out: t.Out, Clock: t.Clock}
	cmd := &cobra.Command{
		Use: "dev", GroupID: groupTool, Short: "Start a server on this machine, with sample data and a login", Args: noArguments,
		Long: `Start a server with its default settings and a sample dataset on this machine, and serve until Ctrl-C. All data stays in the folder of --data.

The commands of this machine are logged in to the server as admin, in a context of its own, which becomes the current one if there is none.`,
		Example: "signalbox dev\nsignalbox submit --demo --follow",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.completeServer(cmd, &o); err != nil {
				return err
			}
			o.Program = cmp.Or(t.Program, "signalbox")
			return demo.Dev(cmd.Context(), o, func(address string, token secret.String) (string, error) {
				return t.keepDevLogin(o, address, token)
			})
		},
	}
	addServer(cmd, &o, ".signalbox/dev")
	return cmd
}

// keepDevLogin stores the login to the server of dev, and returns the words with which a command uses it.
func (t *tool) keepDevLogin(o demo.Options, address string, token secret.String) (string, error) {
	dir, config, err := t.loadConfig()
	if err != nil {
		return "", err
	}
	name, err := devContext(o.Data, config)
	if err != nil {
		return "", err
	}
	store, _, err := credential.Choose(cmp.Or(t.Getenv(settings.EnvStore), config.Contexts[name].Store), dir)
	if err != nil {
		return "", err
	}
	login := credential.Credential{Server: address, User: "admin", Token: token, ExpiresAt: credential.Expiry(token)}
	if err := t.storeLogin(dir, settings.Chosen{Name: name, Server: address}, store, login, false); err != nil {
		return "", err
	}
	if config.Current != "" && config.Current != name || t.Getenv(settings.EnvContext) != "" {
		return o.Program + " --context " + name, nil
	}
	return o.Program, nil
}

// devContext returns the name of the context of the server with a data folder. The folder has it in a file, so that no context of
// another installation is replaced.
func devContext(data string, config settings.Config) (string, error) {
	file := filepath.Join(data, "context")
	kept, err := os.ReadFile(file)
	if err == nil && len(kept) > 0 {
		return strings.TrimSpace(string(kept)), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read the name of the context: %w", err)
	}
	name := "dev"
	for n := 2; ; n++ {
		if _, taken := config.Contexts[name]; !taken {
			break
		}
		name = fmt.Sprintf("dev-%d", n)
	}
	return name, localfile.Write(file, []byte(name+"\n"), localfile.PrivateMode)
}
