package chart

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var write = flag.Bool("write", false, "write the table of values in the README of the chart")

const (
	readmeFile = "deploy/helm/signalbox/README.md"
	tableHead  = "| Value | Type | Default | Meaning |\n|---|---|---|---|\n"
)

// The table of values in the README is generated from the schema and values.yaml.
func TestReadme(t *testing.T) {
	t.Parallel()
	content := readTop(t, readmeFile)
	before, _, ok := strings.Cut(content, tableHead)
	require.True(t, ok, "the README has no table of values")
	var table strings.Builder
	rows(t, &table, "", readSchema(t), load(t).Values)
	want := before + tableHead + table.String()
	if *write {
		require.NoError(t, os.WriteFile(filepath.Join(top, readmeFile), []byte(want), 0o600))
		return
	}
	require.Equal(t, want, content, "the table is outdated; run: GOWORK=off go -C test/chart test -run TestReadme . -args -write")
}

// rows writes a row for each value below a property.
func rows(t *testing.T, out *strings.Builder, path string, p *property, value any) {
	t.Helper()
	values, _ := value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		child, at := p.Properties[name], strings.TrimPrefix(path+"."+name, ".")
		if len(child.Properties) > 0 && name != "resources" && name != "tls" && path+name != "services" {
			rows(t, out, at, child, values[name])
			continue
		}
		kind := fmt.Sprint(child.Type)
		if list, ok := child.Type.([]any); ok {
			kind = strings.Trim(fmt.Sprint(list), "[]")
			kind = strings.ReplaceAll(kind, " ", " or ")
		}
		if len(child.Enum) > 0 {
			kind = strings.ReplaceAll(strings.Trim(fmt.Sprint(child.Enum), "[]"), " ", ", ")
		}
		fallback := ""
		if given, ok := values[name]; ok {
			raw, err := json.Marshal(given)
			require.NoError(t, err)
			fallback = "`" + strings.Trim(string(raw), `"`) + "`"
		}
		switch fallback {
		case "``", "`{}`", "`[]`":
			fallback = ""
		}
		fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", at, kind, fallback, child.Description)
	}
}
