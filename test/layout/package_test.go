package layout

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// namespace returns the folder in which each package has a name of its own: a service, or platform. Elsewhere several
// packages may have the same name.
func namespace(dir string) string {
	switch parts := strings.Split(dir, "/"); {
	case parts[0] == "platform":
		return "platform"
	case parts[0] == "services" && len(parts) > 1:
		return "services/" + parts[1]
	default:
		return ""
	}
}

func TestPackages_namedOnce(t *testing.T) {
	t.Parallel()
	byName := map[string][]string{}
	for _, p := range list(t, "") {
		dir := strings.TrimPrefix(p.ImportPath, module+"/")
		if in := namespace(dir); in != "" && p.Name != "main" {
			byName[in+" "+p.Name] = append(byName[in+" "+p.Name], dir)
		}
	}
	require.NotEmpty(t, byName)
	for _, dirs := range byName {
		slices.Sort(dirs)
		require.Len(t, dirs, 1, "rename all but one of these packages")
	}
}
