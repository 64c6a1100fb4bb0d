package artifact

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func TestWrite_registersArtifactOnce(t *testing.T) {
	t.Parallel()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files}).Pool("ingest")
	s := &Store{Pool: pool}
	one := int64(1)
	base := Artifact{RunID: "run_1", Kind: "checkpoint", Format: "gguf", Path: "p", Size: 4, SHA256: sum}
	stepped, other, local := base, base, base
	stepped.Step, other.Kind, local.Path, local.SHA256 = &one, "hf_export", "/host", ""
	cases := []struct {
		a       Artifact
		id, has string
	}{
		{base, "art_1", "art_1"},
		{base, "art_2", "art_1"},
		{stepped, "art_3", "art_3"},
		{stepped, "art_4", "art_3"},
		{other, "art_5", "art_5"},
		{local, "art_6", "art_6"},
		{local, "art_7", "art_6"},
	}
	for _, c := range cases {
		err := pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
			r := &groupcommit.Run{ID: "run_1", Attempt: 2, Now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}
			return Write(&c.a, c.id)(ctx, tx, &pgx.Batch{}, r)
		})
		require.NoError(t, err)
		got, err := s.Find(t.Context(), &c.a)
		require.NoError(t, err)
		require.Equal(t, c.has, got.ID)
		require.Equal(t, c.a.SHA256, got.SHA256)
		require.Equal(t, c.a.Step, got.Step)
	}
	all, more, err := s.List(t.Context(), "run_1", request.Page{Limit: 3})
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, []string{"art_1", "art_3", "art_5"}, []string{all[0].ID, all[1].ID, all[2].ID})
	_, err = s.Get(t.Context(), "run_2", "art_1")
	require.True(t, fault.Is(err, fault.Absent), "an artifact is found only under its own run")
	got, err := s.Get(t.Context(), "run_1", "art_6")
	require.NoError(t, err)
	require.Empty(t, got.URI())
}
