package pg_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

func state(code string) error {
	return fmt.Errorf("save: %w", &pgconn.PgError{Code: code, Message: "secret detail", ConstraintName: "job_pkey"})
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		kind fault.Kind
		code string
	}{
		"unique":                 {state("23505"), fault.Conflict, "exists"},
		"exclusion":              {state("23P01"), fault.Conflict, "exists"},
		"foreign key":            {state("23503"), fault.Conflict, "in_use"},
		"serialization":          {state("40001"), fault.Conflict, "concurrent_change"},
		"deadlock":               {state("40P01"), fault.Conflict, "concurrent_change"},
		"statement timeout":      {state("57014"), fault.Unavailable, "database_timeout"},
		"lock timeout":           {state("55P03"), fault.Unavailable, "database_busy"},
		"read-only":              {state("25006"), fault.Unavailable, "database_read_only"},
		"server stopping":        {state("57P01"), fault.Unavailable, "database_unreachable"},
		"server starting":        {state("57P03"), fault.Unavailable, "database_unreachable"},
		"too many connections":   {state("53300"), fault.Unavailable, "database_unreachable"},
		"disk full":              {state("53100"), fault.Unavailable, "database_unreachable"},
		"connection failure":     {state("08006"), fault.Unavailable, "database_unreachable"},
		"connection closed":      {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), fault.Unavailable, "database_unreachable"},
		"zero byte":              {state("22021"), fault.Refused, "bad_text"},
		"zero character in JSON": {state("22P05"), fault.Refused, "bad_text"},
		"check":                  {state("23514"), fault.Internal, ""},
		"syntax error":           {state("42601"), fault.Internal, ""},
		"no permission":          {state("42501"), fault.Internal, ""},
		"fault":                  {fault.New(fault.Forbidden, "policy", "no"), fault.Forbidden, "policy"},
		"other error":            {errors.New("other"), fault.Internal, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := pg.Classify(tc.err)
			require.ErrorIs(t, got, tc.err, "the cause stays wrapped for the log")
			f := fault.From(got)
			require.Equal(t, tc.kind, f.Kind)
			if tc.code != "" {
				require.Equal(t, tc.code, f.Code)
				require.NotContains(t, f.Msg, "secret detail")
			}
		})
	}
	require.NoError(t, pg.Classify(nil))
	require.Equal(t, context.Canceled, pg.Classify(context.Canceled))
	require.Equal(t, pgx.ErrNoRows, pg.Classify(pgx.ErrNoRows))
}

func TestClassify_serverErrors(t *testing.T) {
	t.Parallel()
	pool := counters(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO counter VALUES (1, 1)`)
	require.True(t, pg.IsUnique(err, "counter_pkey"))
	require.True(t, pg.IsUnique(err, ""))
	require.False(t, pg.IsUnique(err, "other"))
	require.True(t, fault.HasCode(pg.Classify(err), "exists"))

	_, err = pool.Exec(t.Context(), `INSERT INTO event (id, at, subject_kind, subject_id, type, actor_kind) VALUES ($1, now(), '', '', '', '')`, "a\x00b")
	require.True(t, fault.HasCode(pg.Classify(err), "bad_text"), "%v", err)

	_, err = pool.Exec(t.Context(), `SELECT pg_terminate_backend(pg_backend_pid())`)
	require.True(t, fault.HasCode(pg.Classify(err), "database_unreachable"), "%v", err)
	require.False(t, pg.IsUnique(nil, ""))
	require.False(t, pg.IsRetryable(nil))
}
