package pg_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// reads is a Loader whose reads wait for the test. A key's value is its length; the key "" does not exist.
type reads struct {
	*pg.Loader[string, int]

	begun  chan []string
	finish chan error
}

func newReads() *reads {
	r := &reads{begun: make(chan []string, 10), finish: make(chan error)}
	r.Loader = pg.NewLoader(func(ctx context.Context, keys []string) (map[string]int, error) {
		r.begun <- slices.Sorted(slices.Values(keys))
		found := map[string]int{}
		for _, key := range keys {
			if key != "" {
				found[key] = len(key)
			}
		}
		select {
		case err := <-r.finish:
			return found, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	return r
}

// result is what Get returned.
type result struct {
	value int
	ok    bool
	err   error
}

func (r *reads) get(ctx context.Context, key string) <-chan result {
	got := make(chan result, 1)
	go func() {
		value, ok, err := r.Get(ctx, key)
		got <- result{value, ok, err}
	}()
	synctest.Wait() // until the caller waits for its read
	return got
}

func TestLoader_Get_concurrentCallersShareRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReads()
		one, two := r.get(t.Context(), "one"), r.get(t.Context(), "one")
		require.Equal(t, []string{"one"}, <-r.begun)
		require.Equal(t, []string{"one"}, <-r.begun, "a caller must not get rows that were read before its call")
		later := []<-chan result{r.get(t.Context(), "three"), r.get(t.Context(), "one"), r.get(t.Context(), "one"), r.get(t.Context(), "")}
		require.Empty(t, r.begun, "at most two reads run")
		r.finish <- nil
		require.Equal(t, []string{"", "one", "three"}, <-r.begun)
		r.finish <- nil
		r.finish <- nil
		for _, got := range []<-chan result{one, two, later[1], later[2]} {
			require.Equal(t, result{3, true, nil}, <-got)
		}
		require.Equal(t, result{5, true, nil}, <-later[0])
		require.Equal(t, result{}, <-later[3], "a key that does not exist has no value")
		alone := r.get(t.Context(), "four")
		require.Equal(t, []string{"four"}, <-r.begun)
		r.finish <- nil
		require.Equal(t, result{4, true, nil}, <-alone)
	})
}

func TestLoader_Get_failedRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReads()
		failed, other := r.get(t.Context(), "one"), r.get(t.Context(), "two")
		broken := errors.New("the connection is broken")
		r.finish <- broken
		r.finish <- nil
		errs := []error{(<-failed).err, (<-other).err}
		require.ElementsMatch(t, []error{broken, nil}, errs, "only the callers of the failed read receive its error")
	})
}

func TestLoader_Get_callerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReads()
		running := []<-chan result{r.get(t.Context(), "a"), r.get(t.Context(), "b")}
		ctx, leave := context.WithCancel(t.Context())
		first, second := r.get(ctx, "one"), r.get(ctx, "two")
		third := r.get(t.Context(), "three")
		leave()
		require.ErrorIs(t, (<-second).err, context.Canceled, "a caller does not wait longer than its context")
		for range 3 {
			r.finish <- nil
		}
		require.Equal(t, result{5, true, nil}, <-third, "the read of a caller that has left serves the others")
		<-first
		for _, got := range running {
			require.NoError(t, (<-got).err)
		}
	})
}

func TestLoader_Get_hangingRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReads()
		began := time.Now()
		require.ErrorIs(t, (<-r.get(t.Context(), "one")).err, context.DeadlineExceeded)
		require.Equal(t, 10*time.Second, time.Since(began))
	})
}

func TestLoader_Get_panickingRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fail := make(chan struct{})
		l := pg.NewLoader(func(context.Context, []int) (map[int]int, error) {
			<-fail
			panic("a bug")
		})
		panics, errs := make(chan any, 4), make(chan error, 4)
		for range 4 { // two callers read, the third waits for its turn, and the fourth shares its read
			go func() {
				defer func() { panics <- recover() }()
				_, _, err := l.Get(t.Context(), 1)
				errs <- err
			}()
			synctest.Wait()
		}
		close(fail)
		synctest.Wait()
		require.Len(t, panics, 4, "a panic frees the turn of its read")
		require.Len(t, errs, 1)
		require.Error(t, <-errs, "the callers of a read that panics get no value")
	})
}
