package idempotency_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/typepb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// maker has one create method. The response contains the name and the number of creations so far.
type maker struct {
	pool *pgxpool.Pool
	once *idempotency.Once
	made atomic.Int32
}

func newMaker(t *testing.T) *maker {
	t.Helper()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	return &maker{pool: pool, once: &idempotency.Once{Pool: pool, Keys: idempotency.New(clock.Real())}}
}

// as returns the context of a request by a user with an Idempotency-Key.
func as(ctx context.Context, person, key string) context.Context {
	ctx = authn.NewContext(ctx, &authn.Caller{Kind: authn.KindUser, Subject: person})
	if key == "" {
		return ctx
	}
	return metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
}

func (m *maker) create(ctx context.Context, method, name string) (*typepb.Field, error) {
	answer := &typepb.Field{}
	err := m.once.Do(ctx, method, wrapperspb.String(name), answer, func(context.Context, pgx.Tx) error {
		idempotency.Set(answer, &typepb.Field{Name: name, Number: m.made.Add(1)})
		return nil
	})
	return answer, err
}

func TestOnce_DoAndReplayAgreeOnRepeats(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		person, key, method, name string
		repeat, conflict          bool
	}{
		"same request":     {"usr_1", "k", "/a", "r", true, false},
		"different body":   {"usr_1", "k", "/a", "x", false, true},
		"different key":    {"usr_1", "l", "/a", "r", false, false},
		"different method": {"usr_1", "k", "/b", "r", false, false},
		"different person": {"usr_2", "k", "/a", "r", false, false},
		"no key":           {"usr_1", "", "/a", "r", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMaker(t)
			first, err := m.create(as(t.Context(), "usr_1", "k"), "/a", "r")
			require.NoError(t, err)
			require.EqualValues(t, 1, first.GetNumber())

			ctx, looked := as(t.Context(), c.person, c.key), &typepb.Field{}
			replayed, err := m.once.Replay(ctx, c.method, wrapperspb.String(c.name), looked)
			require.Equal(t, c.repeat, replayed)
			require.Equal(t, c.conflict, fault.HasCode(err, idempotency.CodeKey), "%v", err)
			require.Equal(t, c.repeat, proto.Equal(first, looked))

			got, err := m.create(ctx, c.method, c.name)
			require.Equal(t, c.conflict, fault.HasCode(err, idempotency.CodeKey), "%v", err)
			require.Equal(t, c.repeat, proto.Equal(first, got))
			want := 2
			if c.repeat || c.conflict {
				want = 1
			}
			require.EqualValues(t, want, m.made.Load())
		})
	}
}

func TestOnce_Replay_claimsNoKey(t *testing.T) {
	t.Parallel()
	m := newMaker(t)
	ctx := as(t.Context(), "usr_1", "k")
	for range 2 {
		replayed, err := m.once.Replay(ctx, "/a", wrapperspb.String("r"), &typepb.Field{})
		require.NoError(t, err)
		require.False(t, replayed)
	}
	got, err := m.create(ctx, "/a", "not the body of Replay")
	require.NoError(t, err)
	require.EqualValues(t, 1, got.GetNumber())
}

// Most requests are first requests, so Replay must not write and roll back for them.
func TestOnce_Replay_onlyReads(t *testing.T) {
	t.Parallel()
	m := newMaker(t)
	cfg := m.pool.Config()
	cfg.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	reader, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer reader.Close()
	once := &idempotency.Once{Pool: reader, Keys: idempotency.New(clock.Real())}
	replayed, err := once.Replay(as(t.Context(), "usr_1", "k"), "/a", wrapperspb.String("r"), &typepb.Field{})
	require.NoError(t, err)
	require.False(t, replayed)
}

// The stored hash must not depend on the version of the program that stored it.
func TestOnce_hashOfCanonicalForm(t *testing.T) {
	t.Parallel()
	m := newMaker(t)
	ctx := as(t.Context(), "usr_1", "k")
	body := &typepb.Field{Name: "a", Number: 3, Kind: typepb.Field_TYPE_BOOL}
	create := func(answer proto.Message) error {
		return m.once.Do(ctx, "/a", body, answer, func(context.Context, pgx.Tx) error { m.made.Add(1); return nil })
	}
	require.NoError(t, create(&typepb.Field{}))
	var sum []byte
	require.NoError(t, m.pool.QueryRow(ctx, `SELECT body_hash FROM idempotency`).Scan(&sum))
	want := sha256.Sum256([]byte(`{"kind":"TYPE_BOOL","name":"a","number":3}`))
	require.Equal(t, want[:], sum)

	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(body)
	require.NoError(t, err)
	former := sha256.Sum256(raw)
	_, err = m.pool.Exec(ctx, `UPDATE idempotency SET body_hash = $1`, former[:])
	require.NoError(t, err)
	require.NoError(t, create(&typepb.Field{}))
	require.EqualValues(t, 1, m.made.Load(), "a repeat of a request that an earlier version stored creates nothing")
}

func TestOnce_Do_failedCreateMayBeRetried(t *testing.T) {
	t.Parallel()
	m := newMaker(t)
	ctx, boom := as(t.Context(), "usr_1", "k"), errors.New("boom")
	for range 2 {
		err := m.once.Do(ctx, "/a", wrapperspb.String("r"), &typepb.Field{}, func(context.Context, pgx.Tx) error { return boom })
		require.ErrorIs(t, err, boom)
	}
	got, err := m.create(ctx, "/a", "r")
	require.NoError(t, err)
	require.EqualValues(t, 1, got.GetNumber())
}

func TestOnce_Do_createAndKeyShareTransaction(t *testing.T) {
	t.Parallel()
	m := newMaker(t)
	ctx, boom := as(t.Context(), "usr_1", "k"), errors.New("boom")
	err := m.once.Do(ctx, "/a", wrapperspb.String("r"), &typepb.Field{}, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO idempotency (subject, route, key, body_hash, expires_at) VALUES ('s', 'r', 'k', '', now())`)
		require.NoError(t, err)
		return boom
	})
	require.ErrorIs(t, err, boom)
	var rows int
	require.NoError(t, m.pool.QueryRow(t.Context(), `SELECT count(*) FROM idempotency`).Scan(&rows))
	require.Zero(t, rows)
}

func TestOnce_Do_concurrentRepeatsCreateOnce(t *testing.T) {
	t.Parallel()
	m := newMaker(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := m.create(as(t.Context(), "usr_1", "k"), "/a", "r")
			if err != nil || got.GetNumber() != 1 {
				t.Error(got, err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, m.made.Load())
}

func TestOnce_Do_emptyResponseIsStored(t *testing.T) {
	t.Parallel()
	m := newMaker(t)
	for range 2 {
		err := m.once.Do(as(t.Context(), "usr_1", "k"), "/a", wrapperspb.String("r"), &typepb.Field{}, func(context.Context, pgx.Tx) error {
			m.made.Add(1)
			return nil
		})
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, m.made.Load())
}

// Methods that issue a secret add it to the response after Do.
func TestOnce_Do_storesNoSecretAddedLater(t *testing.T) {
	t.Parallel()
	m := newMaker(t)
	ctx := as(t.Context(), "usr_1", "k")
	first, err := m.create(ctx, "/a", "r")
	require.NoError(t, err)
	first.DefaultValue = "s3cret"
	again, err := m.create(ctx, "/a", "r")
	require.NoError(t, err)
	require.Empty(t, again.GetDefaultValue())
	var kept string
	require.NoError(t, m.pool.QueryRow(t.Context(), `SELECT encode(answer, 'escape') FROM idempotency`).Scan(&kept))
	require.NotContains(t, kept, "s3cret")
}

func TestOnce_malformedStoredResponse(t *testing.T) {
	t.Parallel()
	m := newMaker(t)
	ctx := as(t.Context(), "usr_1", "k")
	_, err := m.create(ctx, "/a", "r")
	require.NoError(t, err)
	_, err = m.pool.Exec(t.Context(), `UPDATE idempotency SET answer = '\xff'`)
	require.NoError(t, err)
	_, err = m.create(ctx, "/a", "r")
	require.ErrorContains(t, err, "decode the stored response")
	replayed, err := m.once.Replay(ctx, "/a", wrapperspb.String("r"), &typepb.Field{})
	require.ErrorContains(t, err, "decode the stored response")
	require.False(t, replayed)
	require.EqualValues(t, 1, m.made.Load(), "a repeat never creates")
}

func TestOnce_malformedKeyCreatesNothing(t *testing.T) {
	t.Parallel()
	m := newMaker(t)
	_, err := m.create(as(t.Context(), "usr_1", "a b"), "/a", "r")
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = m.once.Replay(as(t.Context(), "usr_1", "a b"), "/a", wrapperspb.String("r"), &typepb.Field{})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	require.Zero(t, m.made.Load())
}

func TestSet_replacesContent(t *testing.T) {
	t.Parallel()
	dst, src := &typepb.Field{Name: "old", Number: 7}, &typepb.Field{Name: "new"}
	idempotency.Set(dst, src)
	require.True(t, proto.Equal(src, dst))
}
