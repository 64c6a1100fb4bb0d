package example

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const golden = `A team is created.
route: POST /api/teams
-- request covers example --
POST /api/teams
Authorization: Bearer {{operator}}
Content-Type: application/json; charset=utf-8

{"key": "{{unique}}"}
-- response --
201
Content-Type: application/json

{"id": "<<id team as made>>", "key": "{{unique}}"}
-- request --
GET /api/teams/{{made}}
-- response --
200

{"id": "{{made}}", "<<rest>>": "<<any>>"}
-- more.txt --
not a request
`

func TestParse(t *testing.T) {
	t.Parallel()
	all, err := parse(golden)
	require.NoError(t, err)
	require.Len(t, all, 2)
	first := all[0]
	require.Equal(t, "POST /api/teams", first.method+" "+first.target)
	require.Equal(t, message{"application/json", `{"key": "{{unique}}"}`}, first.request)
	require.Equal(t, 201, first.status)
	require.Equal(t, message{"application/json", `{"id": "<<id team as made>>", "key": "{{unique}}"}`}, first.response)
	require.True(t, first.marked)
	require.False(t, all[1].marked)
	require.Equal(t, "/api/teams/{{made}}", all[1].target)
	require.Empty(t, all[1].request.body)
	require.Contains(t, all[1].response.body, `"<<rest>>"`)
}

func TestParse_invalid(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"A.\n-- response --\n200\n", "A.\n-- request --\nGET /\n-- response --\nfine\n"} {
		_, err := parse(text)
		require.ErrorContains(t, err, "no valid status or no request")
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "teams"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "teams", "create.txtar"), []byte(golden), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "teams", "notes.md"), []byte("-- response --\nx"), 0o600))
	all, err := Load(dir)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad.txtar"), []byte("-- response --\nx\n"), 0o600))
	_, err = Load(dir)
	require.ErrorContains(t, err, "bad.txtar")
	_, err = Load(filepath.Join(dir, "absent"))
	require.Error(t, err)
}
