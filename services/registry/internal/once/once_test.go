package once_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/idem"
	"github.com/signalbox-dev/signalbox/platform/pgtest"
	"github.com/signalbox-dev/signalbox/services/registry/internal/once"
)

// as is a request of a person under a key.
func as(t *testing.T, person, key string) context.Context {
	t.Helper()
	ctx := authn.NewContext(t.Context(), &authn.Caller{Kind: authn.KindUser, Subject: person, Role: authn.RoleOperator})
	if key == "" {
		return ctx
	}
	return metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
}

func TestARepeatGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	o := &once.Once{Pool: pgtest.New(t, pgtest.Schema{Name: "registry"}).Pool("registry"), Keys: idem.New(clock.Real())}
	made := 0
	do := func(ctx context.Context, method, name string) (*registryv1.Dataset, error) {
		answer := &registryv1.Dataset{}
		err := o.Do(ctx, method, &registryv1.CreateDatasetRequest{Name: name}, answer, func(context.Context, pgx.Tx) error {
			made++
			if name == "broken" {
				return errors.New("broken")
			}
			once.Set(answer, &registryv1.Dataset{Name: name, Description: string(rune('a' + made))})
			return nil
		})
		return answer, err
	}
	replay := func(ctx context.Context, name string) (bool, *registryv1.Dataset, error) {
		answer := &registryv1.Dataset{}
		known, err := o.Replay(ctx, "create", &registryv1.CreateDatasetRequest{Name: name}, answer)
		return known, answer, err
	}
	ann := as(t, "usr_1", "k")
	known, _, err := replay(ann, "x")
	require.NoError(t, err)
	require.False(t, known)
	first, err := do(ann, "create", "x")
	require.NoError(t, err, "a look claims nothing")
	again, err := do(ann, "create", "x")
	require.NoError(t, err)
	require.Equal(t, first.GetDescription(), again.GetDescription())
	require.Equal(t, 1, made)
	known, kept, err := replay(ann, "x")
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, "x", kept.GetName())
	_, err = do(ann, "create", "y")
	require.True(t, fault.Is(err, fault.Conflict), "another body under the key: %v", err)
	_, _, err = replay(ann, "y")
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	for n, other := range []context.Context{as(t, "usr_2", "k"), as(t, "usr_1", "l"), as(t, "usr_1", ""), as(t, "usr_1", "")} {
		_, err = do(other, "create", "x")
		require.NoError(t, err)
		require.Equal(t, 2+n, made)
	}
	_, err = do(ann, "other", "x")
	require.NoError(t, err)
	require.Equal(t, 6, made, "a key is of one method")
	for n := range 2 {
		_, err = do(as(t, "usr_1", "m"), "create", "broken")
		require.ErrorContains(t, err, "broken")
		require.Equal(t, 7+n, made, "what failed may be tried again")
	}
}
