package pyenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

func TestTranslate(t *testing.T) {
	t.Parallel()
	list := `:env:.index-url='https://env.example/simple'
global.index-url='https://file.example/simple'
global.extra-index-url='\nhttps://a.example\nhttps://b.example'
global.timeout='60'
install.find-links='/wheels'
not a setting
`
	want := []string{
		"UV_DEFAULT_INDEX=https://file.example/simple", "UV_INDEX=https://a.example https://b.example",
		"UV_FIND_LINKS=/wheels", "UV_DEFAULT_INDEX=https://env.example/simple",
	}
	require.Empty(t, cmp.Diff(want, translate(list)))
}

func TestOneAfterOther(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ first, want string }{
		"both":         {"echo one", "one\ntwo\n"},
		"first fails":  {"echo one; exit 3", "one\nexit status 3"},
		"first killed": {"echo one; kill -9 $$", "one\nsignal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), "python3", "-I", "-c", oneAfterOther, "3", "/bin/sh", "-c", test.first, "/bin/echo", "two").Output()
			if err != nil {
				out = append(out, err.Error()...)
			}
			require.Equal(t, test.want, string(out))
		})
	}
}

func TestInstallerSettings(t *testing.T) {
	t.Parallel()
	got := settings([]string{
		"PATH=/bin", "PIP_INDEX_URL=x", "PIP_USER=1", "UV_INDEX=y", "UV_PYTHON=z", "https_proxy=p", "SERVICE_SECRET=s", "AWS_KEY=k",
	})
	want := []string{"PIP_RETRIES=2", "PYTHONUNBUFFERED=1", "PATH=/bin", "PIP_INDEX_URL=x", "UV_INDEX=y", "https_proxy=p"}
	require.Empty(t, cmp.Diff(want, got))
}

func TestRename_scripts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	require.NoError(t, os.MkdirAll(bin, 0o700))
	script, binary := filepath.Join(bin, "tool"), filepath.Join(bin, "program")
	require.NoError(t, os.WriteFile(script, []byte("#!"+dir+"/bin/python\nprint()\n"), 0o700))
	require.NoError(t, os.WriteFile(binary, []byte("\x00"+dir), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pyvenv.cfg"), []byte("command = "+dir), 0o600))
	require.NoError(t, os.Symlink("/nowhere/python3", filepath.Join(bin, "python")))
	require.NoError(t, rename(bin, dir, "/new/place"))
	for path, want := range map[string]string{
		script: "#!/new/place/bin/python\nprint()\n", binary: "\x00" + dir, filepath.Join(dir, "pyvenv.cfg"): "command = /new/place",
	} {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(raw))
	}
	info, err := os.Stat(script)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}
