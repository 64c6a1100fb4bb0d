package fleet

import (
	"fmt"
	"strings"
)

// joinCommand returns the shell command that an operator runs on the host that joins. The command reads the token from
// standard input: a token in the line would remain in the shell's history, and every user of a host can read the arguments
// of its processes.
func joinCommand(server string) string {
	return fmt.Sprintf("signalbox-agent join --server %s --join-token-file -", shellWord(server))
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
