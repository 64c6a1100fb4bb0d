package allinone

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

const given = "given to the tests"

func (w *runningServer) loop(t *testing.T) *e2eflow.Loop {
	t.Helper()
	l := &e2eflow.Loop{Client: client.New(w.ready.Address, nil), Clock: clock.Real(), Name: "walk", Timeout: 30 * time.Second}
	require.NoError(t, l.Login(t.Context(), "admin", secret.New(given)))
	return l
}

func TestRun_datasetSurvivesRestart(t *testing.T) {
	t.Parallel()
	dir := folderWithCluster(t)
	w := serve(t, dir, map[string]string{"SERVICE_BOOTSTRAP_ADMIN_PASSWORD": given})
	rows, err := e2eflow.OneDigit().Rows(1)
	require.NoError(t, err)
	d, err := w.loop(t).PushDataset(t.Context(), "v1", "additions.jsonl", rows)
	require.NoError(t, err)
	require.Equal(t, "ds/default/walk@v1", d.Ref)
	_, err = w.loop(t).PushDataset(t.Context(), "v1", "additions.jsonl", rows)
	require.ErrorContains(t, err, "409")
	require.Positive(t, size(t, filepath.Join(w.ready.Data, "objects")))
	require.NoError(t, w.stop())

	again := serve(t, dir, nil)
	l := again.loop(t)
	var list []map[string]any
	require.NoError(t, l.Client.Get(t.Context(), "/api/datasets", nil, &list))
	require.Len(t, list, 1)
	_, err = l.PushDataset(t.Context(), "v1", "additions.jsonl", rows)
	require.ErrorContains(t, err, "409", "a version must not be replaced")
	_, err = l.PushDataset(t.Context(), "v2", "additions.jsonl", rows)
	require.NoError(t, err)
	require.NoError(t, again.stop())
}

// size returns the total size in bytes of the files in a folder.
func size(t *testing.T, dir string) (n int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		n += info.Size()
		return err
	}))
	return n
}

func TestRun_rejectsForgedTokens(t *testing.T) {
	t.Parallel()
	w := serve(t, folderWithCluster(t), map[string]string{"SERVICE_BOOTSTRAP_ADMIN_PASSWORD": given})
	var out struct{ Token string }
	anyone := client.New(w.ready.Address, nil)
	require.NoError(t, anyone.Post(t.Context(), "/api/auth/login", map[string]string{"username": "admin", "password": given}, &out))
	parts := strings.Split(out.Token, ".")
	require.Len(t, parts, 3)
	text := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	statuses := map[int]int{}
	for n := range 1000 {
		forged := out.Token
		switch n % 4 {
		case 0:
			at := rand.IntN(len(forged))
			forged = forged[:at] + string(alphabet[rand.IntN(len(alphabet))]) + forged[at+1:]
		case 1:
			forged = text(`{"alg":"none","typ":"at+jwt","kid":"x"}`) + "." + parts[1] + "." + []string{"", "AA"}[rand.IntN(2)]
		case 2:
			forged = parts[0] + "." + text(fmt.Sprintf(`{"sub":"usr_%d","role":"admin","exp":99999999999}`, n)) + "." + parts[2]
		default:
			forged = out.Token[:rand.IntN(len(out.Token))]
		}
		if forged == out.Token {
			continue
		}
		a, err := anyone.With(secret.New(forged)).Call(t.Context(), http.MethodGet, "/api/auth/me", nil)
		require.NoError(t, err)
		statuses[a.Status]++
	}
	require.Len(t, statuses, 1, "%v", statuses)
	require.Positive(t, statuses[http.StatusUnauthorized])
	require.NoError(t, anyone.With(secret.New(out.Token)).Get(t.Context(), "/api/auth/me", nil, nil))
	require.NoError(t, w.stop())
}

func TestRun_unreachableDatabaseHidesPassword(t *testing.T) {
	t.Parallel()
	_, log, err := runInvalid(t, map[string]string{
		"SERVICE_DATA": filepath.Join(t.TempDir(), "data"), "SERVICE_LISTEN": "127.0.0.1:0",
		"SERVICE_DATABASE_ADMIN_URL": "postgres://root:hunter2@127.0.0.1:1/postgres",
	}, Options{})
	require.ErrorContains(t, err, "prepare the database")
	require.NotContains(t, err.Error()+log.String(), "hunter2")
}
