package fleet

import (
	"fmt"
	"strings"
)

// joinCommand returns the shell command that an operator runs on the host that joins. The token is passed in the
// environment because every user of a host can read the arguments of its processes.
func joinCommand(server, token string) string {
	return fmt.Sprintf("SERVICE_AGENT_JOIN_TOKEN=%s signalbox-agent join --server %s", shellWord(token), shellWord(server))
}

// shellWord quotes s unless a shell reads it as one plain word.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@%+=,", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
