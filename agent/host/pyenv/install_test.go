package pyenv

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// The commands of a plan are shell scripts here. The last one prints the options that it gets.
func TestBuildScript(t *testing.T) {
	t.Parallel()
	const install = `echo "$@"`
	for name, test := range map[string]struct {
		download, create, install string
		want                      string
	}{
		"no download":       {"", "true", install, "-r list\n"},
		"wheels":            {"touch FOLDER/a.whl FOLDER/b.whl", "true", install, "-r list --find-links FOLDER --no-index\n"},
		"source package":    {"touch FOLDER/a.whl FOLDER/b.tar.gz", "true", install, "-r list --find-links FOLDER\n"},
		"failed download":   {"touch FOLDER/a.whl; exit 1", "true", install + "; ls FOLDER*", "-r list\na.whl\n"},
		"no folder":         {"rmdir FOLDER; exit 1", "true", install, "-r list\n"},
		"failed creation":   {"", "echo no; exit 3", install, "no\nexit status 3"},
		"killed creation":   {"", "kill -9 $$", install, "signal: killed"},
		"failed installer":  {"", "true", "echo no; exit 3", "no\nexit status 3"},
		"killed installer":  {"", "true", "kill -9 $$", "signal: killed"},
		"installer is last": {"", "echo one", "echo two", "one\ntwo\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			shell := func(script string, args ...string) []string {
				if script == "" {
					return nil
				}
				return append([]string{"/bin/sh", "-c", strings.ReplaceAll(script, "FOLDER", folder), "sh"}, args...)
			}
			plan, err := json.Marshal([]any{shell(test.download), folder, shell(test.create), shell(test.install, "-r", "list"), t.TempDir()})
			require.NoError(t, err)
			out, err := exec.CommandContext(t.Context(), "python3", "-I", "-c", buildScript, string(plan)).Output()
			if err != nil {
				out = append(out, err.Error()...)
			}
			require.Equal(t, strings.ReplaceAll(test.want, "FOLDER", folder), string(out))
			incomplete := folder + "-incomplete"
			if name == "failed download" {
				require.NoDirExists(t, folder, "the folder of a failed download must not count as complete")
				require.NoError(t, os.Rename(incomplete, folder))
			}
			require.NoDirExists(t, incomplete)
		})
	}
}

func TestBuildScript_compilesModules(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "tests", "environment")
	packages := filepath.Join(dir, "lib", "python3", "site-packages", "demo")
	require.NoError(t, os.MkdirAll(filepath.Join(packages, "tests"), 0o700))
	for _, name := range []string{"module.py", "broken.py", "tests/module.py"} {
		text := "value = 1\n"
		if name == "broken.py" {
			text = "print 1\n"
		}
		require.NoError(t, os.WriteFile(filepath.Join(packages, name), []byte(text), 0o600))
	}
	plan, err := json.Marshal([]any{nil, "", []string{"true"}, []string{"true"}, dir})
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), "python3", "-I", "-c", buildScript, string(plan)).CombinedOutput()
	require.NoError(t, err)
	require.Empty(t, string(out))
	var compiled []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".pyc" {
			compiled = append(compiled, path)
		}
		return err
	}))
	require.Len(t, compiled, 1, "the broken module and the tests must not be compiled")
	require.Equal(t, filepath.Join(packages, "__pycache__"), filepath.Dir(compiled[0]))
	raw, err := os.ReadFile(compiled[0])
	require.NoError(t, err)
	const flags = 4 // the position of the flags, see PEP 552
	require.Equal(t, byte(1), raw[flags], "the source must not be compared at an import")
}

func TestInstaller_pipSettings(t *testing.T) {
	t.Parallel()
	i := installer{builder: &Builder{}, pipConfig: func() (string, error) {
		return "global.python='/usr/bin/python3'\nglobal.user='true'\ninstall.target='/opt'\nglobal.index-url='https://index.example/simple'\n", nil
	}}
	require.Empty(t, cmp.Diff([]string{"PIP_CONFIG_FILE=/dev/null", "PIP_INDEX_URL=https://index.example/simple", "PIP_RETRIES=2", "PYTHONUNBUFFERED=1"}, i.pipSettings()))
}

// A step sees the files that its settings name, but not a second time those that every step sees.
func TestInstaller_describe_readable(t *testing.T) {
	t.Parallel()
	certificate := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(certificate, nil, 0o600))
	i := installer{builder: &Builder{environ: []string{"PIP_CONFIG_FILE=" + os.DevNull}}, python: Interpreter{Path: "/usr/bin/python3", Base: "/usr"}, temp: t.TempDir()}
	s := i.describe([]string{"/usr/bin/python3"}, []string{"PIP_CERT=" + certificate, "PIP_FIND_LINKS=" + i.temp}, "/opt/uv")
	require.ElementsMatch(t, []string{"/opt/uv", certificate}, s.Readable)
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
