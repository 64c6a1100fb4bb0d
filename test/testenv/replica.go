package testenv

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
)

// StartReplica starts a second instance of a service on the same host. of is the name of the first instance. The
// process has the program and the settings of the first instance; the given settings replace some of these.
func (s *Installation) StartReplica(of, name string, settings map[string]string) *Process {
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

// Setting returns the value of a setting in the environment of the process, or "" if it is not set.
func (p *Process) Setting(name string) string {
	for _, e := range slices.Backward(p.env) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

// AdminURL returns the path of the file with the admin URL of the database server. The file exists only if
// each service has its own process.
func (s *Installation) AdminURL() string { return filepath.Join(s.Dir, "admin-url") }

// Run replaces the program of the process. It takes effect at the next start.
func (p *Process) Run(program string) { p.argv[0] = program }
