package soak_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/auth"
	"github.com/signalbox-dev/signalbox/services/inference"
	"github.com/signalbox-dev/signalbox/services/ingest"
	"github.com/signalbox-dev/signalbox/services/jobs"
	"github.com/signalbox-dev/signalbox/services/registry"
	"github.com/signalbox-dev/signalbox/test/pgtest"
	"github.com/signalbox-dev/signalbox/test/soak"
)

func schemas(t *testing.T) (out []pgtest.Schema) {
	t.Helper()
	for name, migrations := range map[string]func() (fs.FS, error){
		auth.Name: auth.Migrations, ingest.Name: ingest.Migrations, registry.Name: registry.Migrations, inference.Name: inference.Migrations,
		jobs.Name: func() (fs.FS, error) { return jobs.Migrations(), nil },
	} {
		files, err := migrations()
		require.NoError(t, err)
		out = append(out, pgtest.Schema{Name: name, Migrations: files})
	}
	return out
}

// TestTables_haveAgeOrReason requires that every table of a service is in soak.Tables, with a retention rule or with
// the reason why it does not grow.
func TestTables_haveAgeOrReason(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, table := range soak.Tables() {
		require.False(t, known[table.Name], "%s is listed twice", table.Name)
		known[table.Name] = true
		require.NotEqual(t, table.Kept == "", table.Rule == "", "%s needs either a rule or a reason", table.Name)
	}
	missing, found := []string{}, map[string]bool{}
	for _, s := range schemas(t) {
		rows, err := pgtest.New(t, s).Pool(s.Name).Query(t.Context(), `SELECT relname::text FROM pg_class
			WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`, s.Name)
		require.NoError(t, err)
		for rows.Next() {
			var name string
			require.NoError(t, rows.Scan(&name))
			found[name], found[s.Name+"."+name] = true, true
			if !known[name] && !known[s.Name+"."+name] {
				missing = append(missing, s.Name+"."+name)
			}
		}
		require.NoError(t, rows.Err())
	}
	require.Empty(t, missing, "add these tables to tables.go, with a retention rule or with the reason why they do not grow")
	absent := []string{}
	for name := range known {
		if !found[name] {
			absent = append(absent, name)
		}
	}
	require.Empty(t, absent, "these tables do not exist")
}

// TestTables_rulesAndSettingsExist requires that the rules and settings in soak.Tables exist, and that
// docs/reference/retention.md names each of these settings with its default.
func TestTables_rulesAndSettingsExist(t *testing.T) {
	t.Parallel()
	rules, settings := inSource(t)
	page, err := os.ReadFile("../../docs/reference/retention.md")
	require.NoError(t, err)
	for _, table := range soak.Tables() {
		if table.Kept != "" {
			continue
		}
		require.True(t, slices.Contains(rules, table.Rule), "%s: no service has the rule %q", table.Name, table.Rule)
		if table.Setting != "" {
			require.Contains(t, settings, table.Setting, table.Name)
			line := regexp.MustCompile(`(?m)^.*\| ` + settings[table.Setting] + ` days?( \|| .*\|).*` + table.Setting + "`")
			require.Regexp(t, line, string(page), "docs/reference/retention.md must name %s with its default %s", table.Setting, settings[table.Setting])
		}
	}
}

// inSource returns the names of all retention rules and the defaults of all settings in days.
func inSource(t *testing.T) (rules []string, settings map[string]string) {
	t.Helper()
	settings = map[string]string{}
	rule := regexp.MustCompile(`Name: "([a-z ]+)", Age:`)
	setting := regexp.MustCompile(`env:"(?:SERVICE_)?([A-Z_]+_DAYS), default=([0-9]+)"`)
	for _, root := range []string{"../../services", "../../internal/boot"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(path)
			for _, m := range rule.FindAllStringSubmatch(string(raw), -1) {
				rules = append(rules, m[1])
			}
			for _, m := range setting.FindAllStringSubmatch(string(raw), -1) {
				settings["SERVICE_"+m[1]] = m[2] // the tags of some structs already contain the prefix
			}
			delete(settings, "SERVICE_AUTH_KEY_DAYS") // signing keys are replaced, not deleted
			return err
		}))
	}
	return rules, settings
}
