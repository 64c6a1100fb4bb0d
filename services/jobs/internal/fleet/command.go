package fleet

import (
	"fmt"
	"strings"
)

// joinCommand is what an operator pastes on the host that is to join. The token goes by
// the environment: a process's arguments are there for everyone on its host to read.
func joinCommand(server, token string) string {
	return fmt.Sprintf("SERVICE_AGENT_JOIN_TOKEN=%s signalbox-agent join --server %s", shellWord(token), shellWord(server))
}

// shellWord quotes what a shell would not take as one plain word.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@%+=,", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
