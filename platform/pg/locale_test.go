package pg_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func TestCheckLocale(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	admin, err := pgx.Connect(t.Context(), db.AdminURL().Reveal())
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close(t.Context())) }()
	for locale, warned := range map[string]bool{"C": true, "C.UTF-8": false} {
		name := db.Name + fmt.Sprintf("_%t", warned)
		_, err := admin.Exec(t.Context(), `CREATE DATABASE `+name+` ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE '`+locale+`' TEMPLATE template0`)
		require.NoError(t, err)
		address, err := url.Parse(db.AdminURL().Reveal())
		require.NoError(t, err)
		address.Path = "/" + name
		conn, err := pg.Connect(pgtest.Context(t), address.String(), nil)
		require.NoError(t, err)
		var log bytes.Buffer
		require.NoError(t, pg.CheckLocale(t.Context(), conn, slog.New(slog.NewTextHandler(&log, nil))))
		require.NoError(t, conn.Close(t.Context()))
		require.Equal(t, warned, bytes.Contains(log.Bytes(), []byte("LC_CTYPE C.UTF-8")), "%s: %s", locale, &log)
		_, err = admin.Exec(t.Context(), `DROP DATABASE `+name)
		require.NoError(t, err)
	}
}
