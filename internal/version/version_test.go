package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServer_name(t *testing.T) {
	t.Parallel()
	if build != "" {
		require.Equal(t, build, Server())
		return
	}
	require.Regexp(t, `^dev(-[0-9a-f]{12}(-dirty)?)?$`, Server())
}

func TestOfCommit(t *testing.T) {
	t.Parallel()
	const revision = "0123456789abcdef0123456789abcdef01234567"
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for want, settings := range map[string][]debug.BuildSetting{
		"dev":                    {setting("vcs", "git"), setting("vcs.modified", "true")},
		"dev-0123456789ab":       {setting("vcs.revision", revision), setting("vcs.modified", "false")},
		"dev-0123456789ab-dirty": {setting("vcs.modified", "true"), setting("vcs.revision", revision)},
	} {
		require.Equal(t, want, ofCommit(settings))
	}
	require.Equal(t, "dev", ofCommit([]debug.BuildSetting{setting("vcs.revision", "short")}))
}

func TestDialectMatchesSpecification(t *testing.T) {
	t.Parallel()
	require.Equal(t, "service/v1", API)
	require.NotEmpty(t, Core)
}

// checkout is a temporary repository whose commit hashes are the same in every run.
type checkout struct {
	t   *testing.T
	dir string
}

func newCheckout(t *testing.T) checkout {
	t.Helper()
	c := checkout{t, t.TempDir()}
	c.git("init", "--quiet", "--initial-branch=main")
	return c
}

func (c checkout) git(args ...string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "git", args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example", "GIT_AUTHOR_DATE=2026-11-21T00:00:00Z",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example", "GIT_COMMITTER_DATE=2026-11-21T00:00:00Z")
	out, err := cmd.CombinedOutput()
	require.NoError(c.t, err, "%v: %s", args, out)
}

func (c checkout) commit(text string) {
	c.t.Helper()
	require.NoError(c.t, os.WriteFile(filepath.Join(c.dir, "file"), []byte(text), 0o600))
	c.git("add", "file")
	c.git("commit", "--quiet", "-m", text)
}

// version returns the output of scripts/version.sh for a folder.
func version(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join("..", "..", "scripts", "version.sh"), dir).Output()
	require.NoError(t, err)
	return strings.TrimSuffix(string(out), "\n")
}

func TestVersionScript_commit(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	require.Empty(t, version(t, c.dir), "no commit yet")
	c.commit("one")
	first := version(t, c.dir)
	require.Regexp(t, `^dev-[0-9a-f]{12}$`, first, "a checkout without tags")
	again := newCheckout(t)
	again.commit("one")
	require.Equal(t, first, version(t, again.dir), "the same commit in another checkout")
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "file"), []byte("changed"), 0o600))
	require.Equal(t, first+"-dirty", version(t, c.dir))
	c.commit("two")
	require.NotEqual(t, first, version(t, c.dir))
}

func TestVersionScript_tag(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	c.commit("one")
	c.git("tag", "nightly")
	require.Regexp(t, `^dev-`, version(t, c.dir), "a tag that is not a version is ignored")
	c.git("tag", "v1.2.3")
	require.Equal(t, "v1.2.3", version(t, c.dir))
	c.commit("two")
	require.Regexp(t, `^v1\.2\.3-1-g[0-9a-f]{12}$`, version(t, c.dir))
}

func TestVersionScript_archive(t *testing.T) {
	t.Parallel()
	require.Empty(t, version(t, t.TempDir()))
	c := newCheckout(t)
	c.commit("one")
	unpacked := filepath.Join(c.dir, "unpacked")
	require.NoError(t, os.Mkdir(unpacked, 0o700))
	require.Empty(t, version(t, unpacked), "the repository around the folder does not count")
}

func TestBuildIsLinkedIn(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "gatewayd")
	const module = "github.com/signalbox-dev/signalbox"
	raw, err := os.ReadFile(filepath.Join("..", "..", "scripts", "build.sh"))
	require.NoError(t, err)
	require.Contains(t, string(raw), "-X "+module+"/internal/version.build=$(scripts/version.sh)")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, "-ldflags", "-X "+module+"/internal/version.build=v9.8.7", module+"/gateway/cmd/gatewayd")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	printed, err := exec.CommandContext(t.Context(), program, "--version").Output()
	require.NoError(t, err)
	require.Equal(t, "v9.8.7\n", string(printed))
}
