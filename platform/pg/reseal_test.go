package pg_test

import (
	"crypto/rand"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func newKey(t *testing.T, id string) secret.Key {
	t.Helper()
	raw := make([]byte, 32)
	_, err := rand.Read(raw)
	require.NoError(t, err)
	return secret.Key{ID: id, Bytes: raw}
}

func ring(t *testing.T, keys ...secret.Key) *secret.Keyring {
	t.Helper()
	r, err := secret.NewKeyring(keys...)
	require.NoError(t, err)
	return r
}

func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	files := fstest.MapFS{"00001_thing.sql": {Data: []byte(`-- +goose Up
CREATE TABLE thing (name text, part integer, sealed bytea, PRIMARY KEY (name, part));`)}}
	return pgtest.New(t, pgtest.Schema{Name: "auth", Migrations: files}).Pool("auth")
}

func things() pg.SealedColumn {
	return pg.SealedColumn{Table: "thing", Name: "sealed", Key: "name || '/' || part"}
}

func put(t *testing.T, p *pgxpool.Pool, r *secret.Keyring, name string, part int) {
	t.Helper()
	sealed, err := r.Seal([]byte(fmt.Sprint("secret of ", name, part)), fmt.Sprintf("thing.sealed:%s/%d", name, part))
	require.NoError(t, err)
	_, err = p.Exec(t.Context(), `INSERT INTO thing VALUES ($1, $2, $3)`, name, part, sealed)
	require.NoError(t, err)
}

// A key can be removed from the keyring once all values are wrapped with its successor.
func TestReseal_valuesOfFormerKey(t *testing.T) {
	t.Parallel()
	p := open(t)
	k1, k2 := newKey(t, "k1"), newKey(t, "k2")
	for i := range 450 {
		put(t, p, ring(t, k1), "a", i)
	}
	put(t, p, ring(t, k2), "b", 0)
	_, err := p.Exec(t.Context(), `INSERT INTO thing VALUES ('none', 0, NULL)`)
	require.NoError(t, err)
	both := ring(t, k2, k1)
	moved, err := pg.Reseal(t.Context(), p, both, things())
	require.NoError(t, err)
	require.Equal(t, 450, moved)
	moved, err = pg.Reseal(t.Context(), p, both, things())
	require.NoError(t, err)
	require.Zero(t, moved, "the second run changes nothing")

	fresh := ring(t, k2)
	rows, err := p.Query(t.Context(), `SELECT name, part, sealed FROM thing WHERE sealed IS NOT NULL`)
	require.NoError(t, err)
	defer rows.Close()
	n := 0
	for rows.Next() {
		var name string
		var part int
		var sealed []byte
		require.NoError(t, rows.Scan(&name, &part, &sealed))
		plain, err := fresh.Open(sealed, fmt.Sprintf("thing.sealed:%s/%d", name, part))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("secret of ", name, part), string(plain))
		n++
	}
	require.Equal(t, 451, n)
}

// A value that was copied from another row, or encrypted with a key that the ring lacks, is reported. It does not stop
// the others.
func TestReseal_reportsUndecryptableValues(t *testing.T) {
	t.Parallel()
	p := open(t)
	k1, k2 := newKey(t, "k1"), newKey(t, "k2")
	for i := range 3 {
		put(t, p, ring(t, k1), "a", i)
	}
	put(t, p, ring(t, newKey(t, "k1")), "foreign", 0)
	_, err := p.Exec(t.Context(), `UPDATE thing SET sealed = (SELECT sealed FROM thing WHERE part = 2) WHERE name = 'a' AND part = 1`)
	require.NoError(t, err)
	moved, err := pg.Reseal(t.Context(), p, ring(t, k2, k1), things())
	require.ErrorIs(t, err, secret.ErrOpen)
	require.ErrorContains(t, err, "thing.sealed:a/1")
	require.ErrorContains(t, err, "thing.sealed:foreign/0")
	require.Equal(t, 2, moved)
}

func TestReseal_missingTable(t *testing.T) {
	t.Parallel()
	_, err := pg.Reseal(t.Context(), open(t), ring(t, newKey(t, "k")), pg.SealedColumn{Table: "nothing", Name: "x", Key: "id"}, things())
	require.ErrorContains(t, err, "read nothing.x")
}
