package deployment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// rounds is how often each race is repeated.
const rounds = 8

func TestChanger_Promote_concurrentPromotionsSerialize(t *testing.T) {
	t.Parallel()
	b := open(t)
	one, two := b.readyRevision(), b.readyRevision()
	before := b.epoch()
	var all []func() error
	for n := range 2 * rounds {
		all = append(all, func() error {
			_, err := b.Promote(b.ctx, b.d.ID, int32(1+n%2))
			return err
		})
	}
	for _, err := range atOnce(all...) {
		require.NoError(t, err)
	}
	last := ""
	moves := int64(0)
	for _, e := range b.events() {
		if e.Type != "promoted" {
			continue
		}
		require.Equal(t, last, e.From, "each promotion starts from the result of the previous one")
		require.NotEqual(t, e.From, e.To)
		last = e.To
		moves++
	}
	d := b.now()
	require.Equal(t, last, fmt.Sprintf("revision %d", *d.PromotedNumber))
	require.Equal(t, before+moves, b.epoch(), "each promotion raises the epoch")
	var route int64
	require.NoError(t, b.Pool.QueryRow(t.Context(), `SELECT route_epoch FROM deployment`).Scan(&route))
	require.Equal(t, moves, route)
	require.Len(t, append(b.revision(1).PromotedAt, b.revision(2).PromotedAt...), int(moves))
	if moves > 1 {
		require.ElementsMatch(t, []string{one.ID, two.ID}, []string{*d.PromotedID, *d.PreviousID})
	}
}

func TestChanger_concurrentStopAndPromote(t *testing.T) {
	t.Parallel()
	b := open(t)
	for range rounds {
		r := b.readyRevision()
		errs := atOnce(
			func() error { _, err := b.Promote(b.ctx, b.d.ID, r.Number); return err },
			func() error { _, err := b.Stop(b.ctx, b.d.ID, r.Number); return err },
		)
		d, now := b.now(), b.revision(r.Number)
		if errs[0] == nil {
			require.True(t, fault.HasCode(errs[1], "revision_promoted"), "%v", errs[1])
			require.True(t, d.promoted(r.ID))
			require.Equal(t, revision.Ready, now.State)
			continue
		}
		require.NoError(t, errs[1])
		require.True(t, fault.HasCode(errs[0], "revision_not_ready"), "%v", errs[0])
		require.False(t, d.promoted(r.ID))
		require.Equal(t, revision.Stopped, now.State)
		require.Empty(t, now.PromotedAt)
	}
}

func TestChanger_Promote_concurrentEngineLoss(t *testing.T) {
	t.Parallel()
	b := open(t)
	for range rounds {
		r := b.readyRevision()
		before := b.epoch()
		errs := atOnce(
			func() error { _, err := b.Promote(b.ctx, b.d.ID, r.Number); return err },
			func() error {
				o := died()
				o.WorkID, o.Generation, o.Fence = r.WorkID, 1, 1
				_, err := b.Observe(b.ctx, o)
				return err
			},
		)
		require.NoError(t, errs[1])
		require.Equal(t, revision.NotReady, b.revision(r.Number).State)
		if errs[0] != nil {
			require.True(t, fault.HasCode(errs[0], "revision_not_ready"), "%v", errs[0])
			require.False(t, b.now().promoted(r.ID))
			require.Equal(t, before, b.epoch(), "a candidate never affects traffic")
			continue
		}
		require.True(t, b.now().promoted(r.ID), "the revision stays promoted")
		require.Equal(t, before+2, b.epoch(), "the promotion and the loss both raise the epoch")
		of := fmt.Sprintf("revision %d", r.Number)
		promoted, gone := int64(0), int64(0)
		for _, e := range b.events() {
			switch {
			case e.Type == "promoted" && e.To == of:
				promoted = e.Seq
			case e.To == string(revision.NotReady) && strings.HasPrefix(e.Message, of+":"):
				gone = e.Seq
			}
		}
		require.Positive(t, promoted)
		require.Less(t, promoted, gone, "the promotion came before the loss")
	}
}

func TestChanger_Stop_concurrentStopsConflict(t *testing.T) {
	t.Parallel()
	b := open(t)
	for range rounds {
		r := b.candidate()
		ordered, events := len(b.orders.of), len(b.events())
		stop := func() error { _, err := b.Stop(b.ctx, b.d.ID, r.Number); return err }
		errs := atOnce(stop, stop)
		if errs[0] == nil {
			slices.Reverse(errs)
		}
		require.NoError(t, errs[1])
		require.True(t, fault.HasCode(errs[0], "revision_stopped") && fault.Is(errs[0], fault.Conflict), "%v", errs[0])
		require.Len(t, b.orders.of, ordered+1, "the engine is ended once")
		require.Len(t, b.events(), events+1)
	}
}

func TestChanger_Revoke_concurrentRevocations(t *testing.T) {
	t.Parallel()
	b := open(t)
	for n := range rounds {
		token, _ := b.mint("ci")
		before := b.epoch()
		epochs := make([]int64, 4)
		var all []func() error
		for i := range epochs {
			all = append(all, func() (err error) {
				epochs[i], err = b.Revoke(b.ctx, b.d.ID, token.ID)
				return err
			})
		}
		for _, err := range atOnce(all...) {
			require.NoError(t, err)
		}
		for _, from := range epochs {
			require.Equal(t, before+1, from, "all wait for the same epoch")
		}
		require.Equal(t, before+1, b.epoch())
		require.Equal(t, n+1, b.count("token_revoked"))
	}
}

func TestChanger_CreateRevision_concurrentNumbersHaveNoGaps(t *testing.T) {
	t.Parallel()
	b := open(t)
	var all []func() error
	for range rounds {
		m, v := ready()
		r, err := Candidate(b.ids, b.Clock.Now(), 0, b.d, m, v, revision.Serving{})
		require.NoError(t, err)
		all = append(all, func() error {
			return b.tx(func(ctx context.Context, tx pgx.Tx) error { return b.CreateRevision(ctx, tx, r) })
		})
	}
	for _, err := range atOnce(all...) {
		require.NoError(t, err)
	}
	for n := range rounds {
		require.Equal(t, int32(n+1), b.revision(int32(n+1)).Number)
	}
	_, err := b.Revisions.Get(b.ctx, b.Pool, b.d.ID, rounds+1)
	require.True(t, fault.Is(err, fault.Absent))
}

func TestStores_staleWriterConflicts(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.promotedRevision()
	token, _ := b.mint("ci")
	_, err := b.Revoke(b.ctx, b.d.ID, token.ID)
	require.NoError(t, err)
	stale := *b.d // A copy from before the promotion.
	other := "rev_other"
	wrong := stale
	wrong.PromotedID = &other
	cases := map[string]struct {
		write func(ctx context.Context, tx pgx.Tx) error
		code  string
	}{
		"state moved on": {func(ctx context.Context, tx pgx.Tx) error { return b.Revisions.Save(ctx, tx, r, revision.Probing) }, "revision_changed"},
		"missing revision": {func(ctx context.Context, tx pgx.Tx) error {
			return b.Revisions.Save(ctx, tx, &revision.Revision{ID: "rev_none"}, revision.Ready)
		}, "revision_changed"},
		"first promotion too late":   {func(ctx context.Context, tx pgx.Tx) error { return b.Store.Promote(ctx, tx, &stale, "rev_2", nil) }, "promoted_meanwhile"},
		"promotion over another one": {func(ctx context.Context, tx pgx.Tx) error { return b.Store.Promote(ctx, tx, &wrong, "rev_2", nil) }, "promoted_meanwhile"},
		"second revocation": {func(ctx context.Context, tx pgx.Tx) error {
			return b.Tokens.Revoke(ctx, tx, token.ID, b.Clock.Now(), 99)
		}, "token_revoked"},
	}
	before := b.everything()
	for name, c := range cases {
		err := b.tx(c.write)
		require.True(t, fault.HasCode(err, c.code) && fault.Is(err, fault.Conflict), "%s: %v", name, err)
		require.Equal(t, before, b.everything(), name)
	}
}
