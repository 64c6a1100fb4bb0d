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
		// A shell function replaces the program and prints its arguments.
		script := "signalbox-agent() { printf '%s|' \"$@\"; }; " + joinCommand(server)
		output, err := exec.CommandContext(t.Context(), "bash", "-c", script).Output()
		require.NoError(t, err)
		require.Equal(t, "join|--server|"+server+"|--join-token-file|-|", string(output))
	}
}

func TestJoinCommandPlainWordsUnquoted(t *testing.T) {
	t.Parallel()
	require.Equal(t, "signalbox-agent join --server https://s.example:8443/x --join-token-file -", joinCommand("https://s.example:8443/x"))
}
