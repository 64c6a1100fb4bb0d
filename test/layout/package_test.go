package layout

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// packagesMax is the maximum number of packages in the product. Generated code, packages for tests, and the packages
// of developer tools (the Go module in tools) do not count.
const packagesMax = 150

// sameMeaning contains the names that several packages may have, because the name has the same meaning in
// each.
var sameMeaning = map[string]string{
	"main":     "a program",
	"db":       "the migrations of a service, and code for the database that its packages share",
	"run":      "a training run, in jobs and in ingest",
	"transfer": "moves the objects of a user to another user, in each service",
}

func TestPackagesAreFewAndNamedOnce(t *testing.T) {
	t.Parallel()
	byName := map[string][]string{}
	count := 0
	for _, p := range list(t, "") {
		dir := strings.TrimPrefix(p.ImportPath, module+"/")
		if within(dir, "gen") {
			continue
		}
		if !within(dir, "test") {
			count++
		}
		byName[p.Name] = append(byName[p.Name], dir)
	}
	require.LessOrEqual(t, count, packagesMax, "merge packages that change together")
	for name, dirs := range byName {
		if len(dirs) > 1 {
			slices.Sort(dirs)
			require.Contains(t, sameMeaning, name, "rename all but one of %v", dirs)
		}
	}
	for name := range sameMeaning {
		require.Greater(t, len(byName[name]), 1, "remove the unused exception %s", name)
	}
}
