package testenv

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
)

// Twin starts another process like one of the stand's under a name of its own, with some settings changed:
// a replica on the same host.
func (s *Stand) Twin(of, name string, settings map[string]string) *Process {
	s.T.Helper()
	require.NotContains(s.T, s.Processes, name)
	like := s.Processes[of]
	env := slices.Clone(like.env)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		env = append(env, key+"="+settings[key])
	}
	p := newProcess(s.T, s.Dir, name, env, like.argv...)
	p.dir, p.cred = like.dir, like.cred
	s.Processes[name], s.Order = p, append(s.Order, name)
	p.Start()
	return p
}

// Setting is what the process was given for a setting, empty where nothing was.
func (p *Process) Setting(name string) string {
	for _, e := range slices.Backward(p.env) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

// AdminURL is the file with the URL of the admin of the split shape's database server.
func (s *Stand) AdminURL() string { return filepath.Join(s.Dir, "admin-url") }

// Run makes the process another program from its next start on.
func (p *Process) Run(program string) { p.argv[0] = program }
