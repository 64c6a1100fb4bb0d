package logship_test

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/logship"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

func lines(from, to int) string {
	var b strings.Builder
	for n := from; n < to; n++ {
		fmt.Fprintf(&b, "line %08d\n", n)
	}
	return b.String()
}

const lineBytes = len("line 00000000\n")

var note = regexp.MustCompile(`\n\[signalbox: (\d+) lines \((\d+) bytes\)[^\n]*\]\n`)

// whole checks that the log has each line once and in order, except those that its notes count as dropped.
func whole(t *testing.T, log string, total int) (kept int) {
	t.Helper()
	at := 0
	for i, part := range note.Split(log, -1) {
		if i > 0 {
			m := note.FindAllStringSubmatch(log, -1)[i-1]
			lost, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			require.Equal(t, strconv.Itoa(lost*lineBytes), m[2])
			at += lost
		}
		for line := range strings.Lines(part) {
			require.Equal(t, fmt.Sprintf("line %08d\n", at), line)
			at++
			kept++
		}
	}
	require.Equal(t, total, at, "the log and its notes must account for every line")
	return kept
}

func TestOutput_Write_withinBounds(t *testing.T) {
	t.Parallel()
	for name, bounds := range map[string]logship.Bounds{"none": {}, "wide": {Bytes: 1 << 20, Rate: 1 << 16}} {
		var log bytes.Buffer
		o := logship.NewOutput(&log, 0, bounds, clock.NewFake(time.Unix(0, 0)))
		_, _ = o.Write([]byte("no line end"))
		_, _ = o.Write([]byte(" yet\n\n"))
		o.Close()
		require.Equal(t, "no line end yet\n\n", log.String(), name)
	}
}

func TestOutput_Write_size(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := logship.NewOutput(&log, 0, logship.Bounds{Bytes: 100_000}, clock.NewFake(time.Unix(0, 0)))
	const total = 200_000
	for n := 0; n < total; n += 10 {
		_, err := o.Write([]byte(lines(n, n+10)))
		require.NoError(t, err)
	}
	require.LessOrEqual(t, log.Len(), 100_000, "before Close adds the last lines, the log must not exceed its maximum size")
	o.Close()
	require.LessOrEqual(t, log.Len(), 100_000+64<<10+200)
	require.Len(t, note.FindAllString(log.String(), -1), 1)
	require.Greater(t, whole(t, log.String(), total)*lineBytes, 150_000)
}

func TestOutput_Write_sizeOfExistingLog(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := logship.NewOutput(&log, 100_000, logship.Bounds{Bytes: 100_000}, clock.NewFake(time.Unix(0, 0)))
	_, _ = o.Write([]byte(lines(0, 100_000)))
	o.Close()
	require.Less(t, log.Len(), 64<<10+200)
	whole(t, log.String(), 100_000)
}

func TestOutput_Write_rate(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	clk := clock.NewFake(time.Unix(0, 0))
	o := logship.NewOutput(&log, 0, logship.Bounds{Rate: 100_000}, clk)
	n := 0
	for range 100 { // 100 seconds with almost three times the rate
		_, _ = o.Write([]byte(lines(n, n+20_000)))
		n += 20_000
		clk.Advance(time.Second)
	}
	require.Less(t, log.Len(), 13_000_000, "the log may grow only at the rate, after a burst of 16 seconds")
	require.Greater(t, log.Len(), 9_000_000)
	clk.Advance(time.Minute)
	_, _ = o.Write([]byte(lines(n, n+1)))
	require.True(t, strings.HasSuffix(log.String(), lines(n, n+1)), "a work that becomes quieter must be logged again")
	o.Close()
	require.Greater(t, len(note.FindAllString(log.String(), -1)), 10)
	whole(t, log.String(), n+1)
}

// fullDisk is a writer that fails while full is true.
type fullDisk struct {
	bytes.Buffer
	full bool
}

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.full {
		return 0, errors.New("no space left on device")
	}
	return d.Buffer.Write(p)
}

func TestOutput_Write_fullDisk(t *testing.T) {
	t.Parallel()
	log := &fullDisk{}
	o := logship.NewOutput(log, 0, logship.Bounds{Bytes: 1 << 30, Rate: 1 << 30}, clock.NewFake(time.Unix(0, 0)))
	_, _ = o.Write([]byte(lines(0, 10)))
	log.full = true
	for n := 10; n < 50_000; n += 10 {
		written, err := o.Write([]byte(lines(n, n+10)))
		require.NoError(t, err)
		require.Equal(t, 10*lineBytes, written)
	}
	log.full = false
	_, _ = o.Write([]byte(lines(50_000, 50_010)))
	o.Close()
	require.Greater(t, whole(t, log.String(), 50_010), 10)
}
