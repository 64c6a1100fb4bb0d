package agent_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent"
	"github.com/signalbox-dev/signalbox/platform/conf"
)

func TestProcess_Main_exitStatusAndOutput(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		args        []string
		status      int
		out, errOut string
	}{
		"help":                 {[]string{"-h"}, 0, "usage: signalbox-agent join", ""},
		"help of run":          {[]string{"run", "-h"}, 0, "", "-stop-works"},
		"help of join":         {[]string{"join", "--help"}, 0, "", "-join-token-file"},
		"version":              {[]string{"--version"}, 0, "1.2.3-test", ""},
		"no arguments":         {nil, 2, "", "signalbox-agent join [flags]"},
		"unknown command":      {[]string{"leave"}, 2, "", "usage:"},
		"unknown flag":         {[]string{"join", "--token", "x"}, 1, "", "-token"},
		"print-config of join": {[]string{"join", "--print-config", "--data", "/d"}, 0, "SERVICE_AGENT_DATA=/d", ""},
		"shim without folder":  {[]string{"shim"}, 1, "", "shim: usage: shim FOLDER"},
		"missing server":       {[]string{"join", "--data", "/dev/null/x"}, 1, "", "signalbox-agent: --server is not set"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errOut bytes.Buffer
			p := agent.Process{Args: row.args, Settings: conf.Map(nil), Out: &out, Err: &errOut, Version: "1.2.3-test"}
			require.Equal(t, row.status, p.Main(), "%s%s", &out, &errOut)
			require.Contains(t, out.String(), row.out)
			require.Contains(t, errOut.String(), row.errOut)
		})
	}
}
