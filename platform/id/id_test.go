package id_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
)

func TestPrefixesAreDistinctAndLowerCase(t *testing.T) {
	t.Parallel()
	seen := map[id.Prefix]bool{}
	for _, p := range id.Prefixes() {
		require.False(t, seen[p], "%s is listed twice", p)
		require.Regexp(t, `^[a-z]{2,4}$`, string(p))
		seen[p] = true
	}
	source, err := os.ReadFile("id.go")
	require.NoError(t, err)
	require.Len(t, seen, strings.Count(string(source), `Prefix = "`), "Prefixes must list every declared prefix")
}

func TestSource_New_passesCheckOfItsPrefixOnly(t *testing.T) {
	t.Parallel()
	src := id.NewSource(clock.Real(), rand.Reader)
	for _, p := range id.Prefixes() {
		s := src.New(p)
		require.Len(t, s, len(p)+27)
		for _, q := range id.Prefixes() {
			require.Equal(t, p == q, id.Check(q, s) == nil, "%s as %s", s, q)
		}
	}
}

func TestCheck_malformed(t *testing.T) {
	t.Parallel()
	good := "job_01kab3c4d5e6f7g8h9j0kmnpqr"
	require.NoError(t, id.Check(id.Job, good))
	for name, s := range map[string]string{
		"empty": "", "prefix only": "job_", "upper case": strings.ToUpper(good), "short": good[:len(good)-1],
		"long": good + "0", "letter i": good[:len(good)-1] + "i", "letter u": good[:len(good)-1] + "u",
		"inner letter": good[:10] + "l" + good[11:], "over 128 bits": "job_8" + good[5:],
		"newline": good[:len(good)-1] + "\n", "no underscore": strings.Replace(good, "_", "0", 1),
	} {
		require.ErrorIs(t, id.Check(id.Job, s), id.ErrMalformed, name)
	}
}

func TestSource_New_increasesWhenClockStepsBack(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	src := id.NewSource(clk, rand.Reader)
	var ids []string
	for _, step := range []time.Duration{0, 0, time.Second, -time.Hour, 0, time.Millisecond} {
		clk.Advance(step)
		for range 100 {
			ids = append(ids, src.New(id.Event))
		}
	}
	require.True(t, slices.IsSorted(ids))
	require.Len(t, slices.Compact(ids), 600)
}

func TestSource_New_entropyOverflowAdvancesOneMillisecond(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	src := id.NewSource(clk, io.MultiReader(bytes.NewReader(bytes.Repeat([]byte{0xff}, 64)), rand.Reader))
	first, second := src.New(id.Job), src.New(id.Job)
	require.Less(t, first, second)
	require.NotEqual(t, first[:14], second[:14])
}

func TestSource_New_uniqueUnderConcurrency(t *testing.T) {
	t.Parallel()
	src := id.NewSource(clock.Real(), rand.Reader)
	var (
		mu   sync.Mutex
		seen = map[string]bool{}
		wg   sync.WaitGroup
	)
	for range 8 {
		wg.Go(func() {
			for range 500 {
				s := src.New(id.Run)
				mu.Lock()
				seen[s] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, seen, 4000)
}

func TestSource_New_panicsIfEntropyFails(t *testing.T) {
	t.Parallel()
	src := id.NewSource(clock.Real(), iotest.ErrReader(errors.New("no entropy")))
	require.PanicsWithValue(t, "id: read random bytes: no entropy", func() { src.New(id.Job) })
}

func FuzzCheck(f *testing.F) {
	f.Add("job_01kab3c4d5e6f7g8h9j0kmnpqr")
	f.Fuzz(func(t *testing.T, s string) {
		if id.Check(id.Job, s) == nil {
			require.Regexp(t, `\Ajob_[0-7][0-9a-hjkmnp-tv-z]{25}\z`, s)
		}
	})
}
