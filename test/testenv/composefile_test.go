package testenv

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func composeFile(t *testing.T) map[string]container {
	t.Helper()
	return readCompose(t, "SITE_HOST=signalbox.test", "SITE_TLS=internal", "TAG=v1")
}

// task reports whether a container ends after its task.
func task(name string) bool {
	return name == "certs" || name == "database" || strings.HasSuffix(name, "-migrate")
}

func TestComposeFile_containersAreLocked(t *testing.T) {
	t.Parallel()
	// The first two change the owners of files, the image of Postgres changes to its user, and that of Caddy has no user.
	asRoot := []string{"certs", "database", "postgres", "caddy"}
	for name, c := range composeFile(t) {
		require.True(t, c.ReadOnly, name)
		require.Equal(t, []string{"ALL"}, c.Dropped, name)
		require.Equal(t, []string{"no-new-privileges:true"}, c.Security, name)
		require.False(t, c.Privileged, name)
		require.NotRegexp(t, `:latest$|/[^:]*$`, c.Image, "%s must name a version", name)
		if !slices.Contains(asRoot, name) {
			require.Empty(t, c.Added, name)
			require.Regexp(t, `^65532:\d+$`, c.User, name)
		}
	}
}

func TestComposeFile_restartsAndHealthChecks(t *testing.T) {
	t.Parallel()
	all := composeFile(t)
	for name, c := range all {
		if task(name) {
			require.Empty(t, c.Restart, name)
			continue
		}
		require.Equal(t, "unless-stopped", c.Restart, name)
		require.NotNil(t, c.Health, name)
		for other, d := range c.DependsOn {
			want := "service_healthy"
			if task(other) {
				want = "service_completed_successfully"
			}
			require.Equal(t, want, d.Condition, "%s depends on %s", name, other)
		}
	}
	// What a service keeps must outlive its container.
	for name, target := range map[string]string{
		"inference": all["inference"].Environment["SERVICE_INFERENCE_SPOOL"], "auth": all["auth"].Environment["SERVICE_AUDIT_DIR"],
		"gateway": all["gateway"].Environment["SERVICE_BLOB_ROOT"], "postgres": all["postgres"].Environment["PGDATA"], "caddy": "/data",
	} {
		volume := func(m mount) bool { return m.Type == "volume" && m.Target == target }
		require.True(t, slices.ContainsFunc(all[name].Volumes, volume), "%s needs a volume at %s", name, target)
	}
}

func TestComposeFile_hasNoSecrets(t *testing.T) {
	t.Parallel()
	secret := regexp.MustCompile(`PASSWORD|SECRET|KEY|TOKEN|DATABASE_(OWNER_)?URL`)
	for name, c := range composeFile(t) {
		require.NotContains(t, strings.Join(c.Command, " "), "://", name)
		for key, value := range c.Environment {
			if secret.MatchString(key) {
				require.True(t, strings.HasPrefix(value, "/"), "%s: %s must be the path of a file", name, key)
			}
		}
	}
}

// imageGroups returns the ids of the groups in the images by name.
func imageGroups(t *testing.T) map[string]string {
	t.Helper()
	ids := map[string]string{}
	for _, line := range lines(t, filepath.Join(Root(t), "tools", "images", "etc", "group")) {
		fields := strings.Split(line, ":")
		ids[fields[0]] = fields[2]
	}
	return ids
}

func TestComposeFile_usersAreThoseOfTheUnits(t *testing.T) {
	t.Parallel()
	ids, all := imageGroups(t), composeFile(t)
	for _, name := range services {
		u := readUnit(t, "signalbox-"+name+".service")
		var groups []string
		for g := range strings.FieldsSeq(u.one("SupplementaryGroups")) {
			groups = append(groups, ids[g])
		}
		containers := []string{name}
		if len(u.command("ExecStartPre")) > 0 {
			containers = append(containers, name+"-migrate")
		}
		for _, one := range containers {
			require.Equal(t, ids[u.one("User")]+":"+ids[u.one("Group")], all[one].User, one)
			require.ElementsMatch(t, groups, all[one].Groups, one)
			require.Equal(t, filepath.Base(u.command("ExecStart")[0]), all[one].program(), one)
		}
	}
}

func TestImages_haveTheGroupsOfTheUnits(t *testing.T) {
	t.Parallel()
	want := []string{"root"}
	for _, line := range lines(t, filepath.Join(Root(t), "deploy", "sysusers.d", "signalbox.conf")) {
		if name := strings.Fields(line)[1]; name != "signalboxd" && name != "signalbox-agent" { // these run on the host
			want = append(want, name)
		}
	}
	var names []string
	seen := map[string]bool{}
	for name, id := range imageGroups(t) {
		names = append(names, name)
		seen[id] = true
	}
	require.ElementsMatch(t, want, names)
	require.Len(t, seen, len(names), "two groups have the same id")
}

func TestComposeFile_exampleNamesEveryVariable(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(Root(t), "deploy", "compose")
	file, err := os.ReadFile(filepath.Join(dir, "compose.yaml"))
	require.NoError(t, err)
	example, err := os.ReadFile(filepath.Join(dir, ".env.example"))
	require.NoError(t, err)
	for _, found := range regexp.MustCompile(`\$\{([A-Z_]+)`).FindAllStringSubmatch(string(file), -1) {
		require.Regexp(t, `(?m)^#?`+found[1]+`=`, string(example))
	}
}
