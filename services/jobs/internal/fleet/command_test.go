package fleet

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestJoinCommandSurvivesShell runs the command in a real shell.
func TestJoinCommandSurvivesShell(t *testing.T) {
	t.Parallel()
	for _, server := range []string{
		"http://signalbox.example", "https://[::1]:8443/below/it", "http://h/a b", "http://h/$(id)&;", "http://h/it's", "http://h/`id`\"*?\\", "",
	} {
		// A shell function replaces the program and prints its environment and arguments.
		script := "signalbox-agent() { printf '%s|' \"$SERVICE_AGENT_JOIN_TOKEN\" \"$@\"; }; " + joinCommand(server, "fjt_Abc9")
		output, err := exec.CommandContext(t.Context(), "bash", "-c", script).Output()
		require.NoError(t, err)
		require.Equal(t, "fjt_Abc9|join|--server|"+server+"|", string(output))
	}
}

func TestJoinCommandPlainWordsUnquoted(t *testing.T) {
	t.Parallel()
	require.Equal(t, "SERVICE_AGENT_JOIN_TOKEN=fjt_Abc9 signalbox-agent join --server https://s.example:8443/x", joinCommand("https://s.example:8443/x", "fjt_Abc9"))
}
