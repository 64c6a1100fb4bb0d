package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/version"
)

func TestExitStatusAndWhereTheWordsGo(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		args        []string
		status      int
		out, errOut string
	}{
		"help":             {[]string{"-h"}, 0, "usage: signalbox-agent join", ""},
		"help of run":      {[]string{"run", "-h"}, 0, "", "-stop-works"},
		"help of join":     {[]string{"join", "--help"}, 0, "", "-join-token-file"},
		"version":          {[]string{"--version"}, 0, version.Server(), ""},
		"nothing":          {nil, 2, "", "signalbox-agent join [flags]"},
		"unknown command":  {[]string{"leave"}, 2, "", "usage:"},
		"unknown flag":     {[]string{"join", "--token", "x"}, 1, "", "-token"},
		"settings of join": {[]string{"join", "--print-config", "--data", "/d"}, 0, "SERVICE_AGENT_DATA=/d", ""},
		"no server":        {[]string{"join", "--data", "/dev/null/x"}, 1, "", "--server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errOut bytes.Buffer
			require.Equal(t, row.status, realMain(row.args, &out, &errOut), "%s%s", &out, &errOut)
			require.Contains(t, out.String(), row.out)
			require.Contains(t, errOut.String(), row.errOut)
		})
	}
}
