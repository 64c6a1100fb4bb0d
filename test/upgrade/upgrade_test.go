// Package upgrade checks that the programs of the previous version, whose commit is in deploy/previous, work with the
// schema of this version: during an upgrade both use the same database, each service for itself.
package upgrade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const top = "../.."

// previous is the content of deploy/previous.
type previous struct {
	commit string
	// allowed are the findings that are not defects.
	allowed []string
}

func readPrevious(t *testing.T, text string) previous {
	t.Helper()
	var p previous
	for line := range strings.Lines(text) {
		entry, reason, _ := strings.Cut(strings.TrimSpace(line), "#")
		switch entry = strings.TrimSpace(entry); {
		case entry == "":
		case p.commit == "":
			p.commit = entry
		default:
			require.NotEmpty(t, strings.TrimSpace(reason), "deploy/previous: write the reason after a #: %s", entry)
			p.allowed = append(p.allowed, entry)
		}
	}
	require.Regexp(t, `^[0-9a-f]{40}$`, p.commit, "the first line of deploy/previous without a # must be the hash of a commit")
	return p
}

// without returns the findings that are not allowed, and one for each entry that is not needed.
func (p previous) without(findings []string) []string {
	left := slices.DeleteFunc(slices.Clone(findings), func(f string) bool {
		return slices.ContainsFunc(p.allowed, func(entry string) bool { return strings.HasPrefix(f, entry+": ") })
	})
	for _, entry := range p.allowed {
		if !slices.ContainsFunc(findings, func(f string) bool { return strings.HasPrefix(f, entry+": ") }) {
			left = append(left, "deploy/previous: this line is not needed: "+entry)
		}
	}
	return left
}

// extract writes the Go code and the migrations of the commit into a new folder, which it returns.
func extract(t *testing.T, commit string) string {
	t.Helper()
	dir := t.TempDir()
	complete(t, commit)
	git := exec.CommandContext(t.Context(), "git", "-C", top, "archive", commit, "agent", "cmd", "gateway", "internal", "platform", "services")
	tar := exec.CommandContext(t.Context(), "tar", "-x", "-C", dir)
	var stderr bytes.Buffer
	git.Stderr = &stderr
	pipe, err := git.StdoutPipe()
	require.NoError(t, err)
	tar.Stdin = pipe
	require.NoError(t, git.Start())
	out, tarErr := tar.CombinedOutput()
	require.NoError(t, git.Wait(), "this clone lacks the commit of deploy/previous: run git fetch origin %s: %s", commit, &stderr)
	require.NoError(t, tarErr, string(out))
	return dir
}

// complete fetches the history of a shallow clone if it lacks the commit. If that fails, extract reports what is missing.
func complete(t *testing.T, commit string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if exec.CommandContext(ctx, "git", "-C", top, "cat-file", "-e", commit+"^{commit}").Run() != nil {
		_ = exec.CommandContext(ctx, "git", "-C", top, "fetch", "--quiet", "--unshallow", "origin").Run()
	}
}

// statement is an SQL statement in the source, or a part of one. The text between two pieces is known only at run time.
type statement struct {
	Path   string
	Line   int
	Pieces []string
}

// statements returns the statements in the Go code below dir.
func statements(t *testing.T, dir string) []statement {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "-C", filepath.Join(top, "tools"), "run", "./sqlcover", "-list", dir)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var all []statement
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var s statement
		err := d.Decode(&s)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, s)
	}
}

// schemas returns the names of the services that have migrations below root.
func schemas(t *testing.T, root string) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(root, "services", "*", "internal", "db", "migrations"))
	require.NoError(t, err)
	names := make([]string, len(dirs))
	for i, dir := range dirs {
		rel, err := filepath.Rel(filepath.Join(root, "services"), dir)
		require.NoError(t, err)
		names[i], _, _ = strings.Cut(filepath.ToSlash(rel), "/")
	}
	return names
}

// TestSchema_previousVersionWorksWithIt applies the migrations of this version to a database of the previous version that
// has rows in each table. Then each statement in the source of the previous version must still be valid, give columns of
// the same types, and be permitted, and nothing in the schema may refuse a row that the previous version writes.
func TestSchema_previousVersionWorksWithIt(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(top, "deploy", "previous"))
	require.NoError(t, err)
	p := readPrevious(t, string(raw))
	dir := extract(t, p.commit)
	names := schemas(t, dir)
	require.Len(t, names, 5)
	all := statements(t, dir)
	require.Empty(t, edited(t, dir, top), "installations have applied these migrations already: leave them, and add another one")
	u := start(t, dir, names)
	require.Empty(t, u.fill(t), "each table of the previous version must have a row")
	before := u.look(t, all)
	require.Greater(t, before.prepared(), len(all)*4/5, "most statements of the source must be complete ones, which can be prepared")
	u.migrate(t, top)
	require.Empty(t, p.without(compare(before, u.look(t, all), all)), "the previous version would fail while services are upgraded")
}

// edited returns the migrations below old that are missing below now, or differ in more than comments.
func edited(t *testing.T, old, now string) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"services/*/internal/db/migrations/*.sql", "platform/pg/migrate/migrations/*.sql"} {
		files, err := filepath.Glob(filepath.Join(old, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			rel, err := filepath.Rel(old, file)
			require.NoError(t, err)
			before, err := os.ReadFile(file)
			require.NoError(t, err)
			after, err := os.ReadFile(filepath.Join(now, rel))
			if err != nil || !bytes.Equal(comment.ReplaceAll(before, nil), comment.ReplaceAll(after, nil)) {
				found = append(found, rel)
			}
		}
	}
	return found
}

// comment matches a line that is a comment.
var comment = regexp.MustCompile(`(?m)^\s*--.*\n`)
