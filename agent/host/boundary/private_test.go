package boundary_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

func TestCheckPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, link, beside := filepath.Join(dir, "data"), filepath.Join(dir, "link"), filepath.Join(dir, "data-of-others")
	require.NoError(t, os.MkdirAll(filepath.Join(data, "keys"), 0o700))
	require.NoError(t, os.Mkdir(beside, 0o700))
	require.NoError(t, os.Symlink(data, link))
	require.NoError(t, os.Symlink("/usr/share", filepath.Join(dir, "system")))
	for name, c := range map[string]struct {
		private, path, problem string
	}{
		"apart":                         {data, beside, ""},
		"apart, missing":                {data, filepath.Join(dir, "missing"), ""},
		"data folder":                   {data, data, data},
		"parent of the data folder":     {data, dir, data},
		"root":                          {data, "/", "jobs and engines could read /, which contains"},
		"folder of keys":                {data, filepath.Join(data, "keys"), data},
		"folder that does not exist":    {data, filepath.Join(data, "later/keys"), data},
		"path with dots":                {data, beside + "/../data/keys", data},
		"link to the data folder":       {data, link, data},
		"data folder by a link":         {link, data, link},
		"folder of keys by a link":      {data, filepath.Join(link, "keys"), data},
		"data folder in the system":     {"/usr/local/x/d", beside, "/usr/local/x/d, where keys are stored; choose a data folder outside of /usr"},
		"data folder linked to system":  {filepath.Join(dir, "system", "d"), beside, "outside of /usr"},
		"data folder in certificates":   {"/etc/ssl/certs/d", beside, "outside of /etc/ssl/certs"},
		"data folder beside the system": {"/usrlocal/d", beside, ""},
	} {
		err := boundary.CheckPrivate([]string{"/no/such/folder", c.private}, []string{c.path}, "THE_SETTING")
		if c.problem == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.problem, name)
	}
	err := boundary.CheckPrivate([]string{data}, []string{link}, "THE_SETTING")
	require.ErrorContains(t, err, "jobs and engines could read "+link)
	require.ErrorContains(t, err, "change THE_SETTING or choose another data folder")
}

func TestUncovers_secondName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, second := filepath.Join(dir, "file"), filepath.Join(dir, "second")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.False(t, boundary.Uncovers(second, file))
	require.NoError(t, os.Link(file, second))
	require.True(t, boundary.Uncovers(second, file), "a second name of the file must count, like a folder that is mounted twice")
}
