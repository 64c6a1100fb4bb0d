package process_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/process"
)

func TestGroup_failureCancelsTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &eventLog{}
		err := process.Group(t.Context(),
			d.worker("a"),
			process.Worker{Name: "bad", Run: func(context.Context) error { time.Sleep(time.Second); return errors.New("one") }},
			process.Worker{Name: "late", Run: func(ctx context.Context) error { <-ctx.Done(); return errors.New("two") }},
		)
		require.EqualError(t, err, "bad: one\nlate: two")
		require.Contains(t, d.all(), "end a")
	})
}

func TestGroup_endsWithContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &eventLog{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		// After the context is done, a worker that returns the context's error has not failed.
		err := process.Group(ctx, d.worker("a"), d.worker("b"))
		require.NoError(t, err)
		require.Len(t, d.all(), 4)
	})
}

func TestGroup_panicIsAnError(t *testing.T) {
	t.Parallel()
	err := process.Group(t.Context(), process.Worker{Name: "p", Run: func(context.Context) error { panic("boom") }})
	require.ErrorContains(t, err, "p: panic: boom")
	require.ErrorContains(t, err, "group_test.go", "the error has the stack")
}

func TestClosers_Close_reverseOrderOnce(t *testing.T) {
	t.Parallel()
	var c process.Closers
	var order []string
	c.Add("a", func(context.Context) error { order = append(order, "a"); return errors.New("x") })
	c.Add("b", func(context.Context) error { order = append(order, "b"); return nil })
	c.Add("c", func(context.Context) error { order = append(order, "c"); return errors.New("y") })
	require.EqualError(t, c.Close(t.Context()), "close c: y\nclose a: x")
	require.Equal(t, []string{"c", "b", "a"}, order)
	require.NoError(t, c.Close(t.Context()))
	require.Len(t, order, 3)
}
