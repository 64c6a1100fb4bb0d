package allinone

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent"
	"github.com/signalbox-dev/signalbox/gateway"
	"github.com/signalbox-dev/signalbox/internal/boot"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/services/auth"
	"github.com/signalbox-dev/signalbox/services/inference"
	"github.com/signalbox-dev/signalbox/services/ingest"
	"github.com/signalbox-dev/signalbox/services/jobs"
	"github.com/signalbox-dev/signalbox/services/registry"
)

var write = flag.Bool("write", false, "write docs/reference/settings.md")

const introduction = `# Settings

Every program reads its settings from environment variables when it starts. ` + "`PROGRAM --print-config`" + ` shows each one with its value
and where the value comes from. A secret NAME can also be in a file whose path is in NAME_FILE. Durations are written as 90s, 10m or 24h,
ages in days as numbers. A setting that a program does not know causes a warning in its log.

Programs: signalboxd reads all settings on this page except those in sections that are marked "apart". With separate services, each
program reads the settings of all programs, those in its own section, and those in "Several services" that it uses. signalboxd listens
on 127.0.0.1:8080 if ` + "`SERVICE_LISTEN`" + ` is not set.

This page is generated: ` + "`go test ./cmd/signalboxd/internal/allinone -run TestSettingsPage -args -write`" + `.
`

// group is a section of the page.
type group struct {
	title  string
	config any
	prefix string
	// names are the settings to list; nil means all.
	names map[string]bool
}

// shared is the section of settings that more than one service has.
const shared = "Several services"

// groups returns the sections. A setting is listed in the first section that has it, or in the section shared.
func groups() []group {
	listed := []group{
		{title: "All programs", config: boot.Settings{}},
		{title: "The gateway", config: gateway.Config{}},
		{title: "The auth service", config: auth.Config{}},
		{title: "The jobs service", config: jobs.Config{}},
		{title: "The ingest service", config: ingest.Config{}},
		{title: "The registry service", config: registry.Config{}},
		{title: "The inference service", config: inference.Config{}},
		{title: "Agents", config: agent.Config{}},
		{title: "signalboxd", config: Settings{}},
	}
	for _, service := range []string{"auth", "jobs", "ingest", "registry", "inference"} {
		prefix := "SERVICE_" + strings.ToUpper(service) + "_"
		title := "The " + service + " service, apart"
		listed = append(listed, group{title: title, config: conf.Listen{}, prefix: prefix}, group{title: title, config: conf.Postgres{}, prefix: prefix})
		switch service {
		case "jobs":
			listed = append(listed, group{title: title, config: boot.AgentListener{}, prefix: prefix})
		case "ingest", "inference":
			listed = append(listed, group{title: title, config: boot.RequestListeners{}, prefix: prefix})
		}
	}
	return listed
}

// settingsPage returns the page and the settings without a description.
func settingsPage(t *testing.T) (page string, bare []string) {
	t.Helper()
	var out strings.Builder
	out.WriteString(introduction)
	seen, title := map[string]bool{}, ""
	for _, g := range withShared(t, groups()) {
		for _, s := range describe(t, g) {
			name := g.prefix + s.Name
			if seen[name] || g.names != nil && !g.names[name] {
				continue
			}
			seen[name] = true
			if title != g.title {
				title = g.title
				fmt.Fprintf(&out, "\n## %s\n\n| Setting | Type | Default | Meaning |\n|---|---|---|---|\n", title)
			}
			if s.Doc == "" {
				bare = append(bare, name)
			}
			value := ""
			if s.Default != "" {
				value = "`" + s.Default + "`"
			}
			fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", name, s.Type, value, strings.ReplaceAll(s.Doc, "|", "\\|"))
		}
	}
	return out.String(), bare
}

func describe(t *testing.T, g group) []conf.Setting {
	t.Helper()
	settings, err := conf.Describe(g.config)
	require.NoError(t, err)
	slices.SortFunc(settings, func(a, b conf.Setting) int { return cmp.Compare(a.Name, b.Name) })
	return settings
}

// withShared adds sections of the settings that several services have, after the first section.
func withShared(t *testing.T, all []group) []group {
	t.Helper()
	services := slices.DeleteFunc(slices.Clone(all), func(g group) bool { return !strings.HasSuffix(g.title, " service") })
	count := map[string]int{}
	for _, g := range services {
		for _, s := range describe(t, g) {
			count[s.Name]++
		}
	}
	names := map[string]bool{}
	for name, n := range count {
		names[name] = n > 1
	}
	for i := range services {
		services[i].title, services[i].names = shared, names
	}
	return slices.Concat(all[:1], services, all[1:])
}

func TestSettingsPage(t *testing.T) {
	t.Parallel()
	page, bare := settingsPage(t)
	require.Empty(t, bare, "settings without a description")
	file := filepath.Join("..", "..", "..", "..", "docs", "reference", "settings.md")
	if *write {
		require.NoError(t, os.WriteFile(file, []byte(page), 0o644))
	}
	stored, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, page, string(stored), "the page is outdated; run the command at its head to write it again")
}
