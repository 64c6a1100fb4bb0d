package layout

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const siteFolder = "docs/site"

// readSite reads the inputs of the documentation site that no other test here reads, because Go repeats a test only if
// a file that the test itself has read is different.
func readSite(t *testing.T) {
	t.Helper()
	for _, folder := range []string{siteFolder, "docs/guide", "gateway/internal/webpage/asset"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root(t), folder), func(p string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			_, err = os.ReadFile(p)
			return err
		}))
	}
	_, err := os.ReadFile(filepath.Join(root(t), "scripts/docs.sh"))
	require.NoError(t, err)
}

// guides returns the pages for users, relative to the top of the repository.
func guides(t *testing.T) (pages []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(root(t), "docs/guide/*.md"))
	require.NoError(t, err)
	require.Greater(t, len(all), 5)
	for _, page := range all {
		pages = append(pages, "docs/guide/"+filepath.Base(page))
	}
	return pages
}

// TestSettingsInGuidesExist requires that docs/reference/settings.md has every setting that a guide names, or the README of
// the Python package if it is one of the package's. The variables SERVICE_JOB_* are those of a job.
func TestSettingsInGuidesExist(t *testing.T) {
	t.Parallel()
	settings, err := os.ReadFile(filepath.Join(root(t), "docs/reference/settings.md"))
	require.NoError(t, err)
	pythonPackage, err := os.ReadFile(filepath.Join(root(t), "sdk/python/README.md"))
	require.NoError(t, err)
	known := string(settings) + string(pythonPackage)
	for _, page := range guides(t) {
		raw, err := os.ReadFile(filepath.Join(root(t), page))
		require.NoError(t, err)
		for _, name := range regexp.MustCompile(`\bSERVICE_[A-Z0-9_]+\b`).FindAllString(string(raw), -1) {
			if !strings.HasPrefix(name, "SERVICE_JOB_") {
				require.True(t, strings.Contains(known, "`"+name+"`"), "%s names %s, which docs/reference/settings.md lacks", page, name)
			}
		}
	}
}

// TestDocumentationBuilds builds the documentation site. The build fails if a link or an anchor leads nowhere, if a page
// requests something from another host, or if the navigation lacks a page.
func TestDocumentationBuilds(t *testing.T) {
	t.Parallel()
	readSite(t)
	out := t.TempDir()
	report, err := exec.CommandContext(t.Context(), filepath.Join(root(t), "scripts/docs.sh"), out).CombinedOutput()
	require.NoError(t, err, "scripts/docs.sh: %s", report)
	for _, name := range []string{"index.html", "api/index.html", "reference/errors/index.html", "pagefind/pagefind.js", "csp.json"} {
		require.FileExists(t, filepath.Join(out, name))
	}
}

// TestDocumentationChecks runs the tests of the checks that the build makes.
func TestDocumentationChecks(t *testing.T) {
	t.Parallel()
	readSite(t)
	node, err := exec.CommandContext(t.Context(), filepath.Join(root(t), "scripts/tools/node.sh")).Output()
	require.NoError(t, err, "scripts/tools/node.sh")
	test := exec.CommandContext(t.Context(), strings.TrimSpace(string(node)), "--test", "check.test.mjs")
	test.Dir = filepath.Join(root(t), siteFolder)
	report, err := test.CombinedOutput()
	require.NoError(t, err, "%s", report)
}
