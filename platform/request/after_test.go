package request_test

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
)

func TestTimePosition_isIdOfNewRow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 3, 0, 0, 123_456_789, time.UTC)
	rowID := id.NewSource(clock.NewFake(now), rand.Reader).New(id.Job)
	require.Equal(t, now.Truncate(time.Millisecond), id.Time(rowID))
	for _, at := range []time.Time{id.Time(rowID), now, now.Add(time.Hour), time.Unix(0, 0)} {
		text := request.TimePosition(at, rowID)
		require.Equal(t, at.Equal(id.Time(rowID)), text == rowID)
		got, gotID, err := request.ReadTimePosition(id.Job, &text)
		require.NoError(t, err)
		require.Equal(t, rowID, gotID)
		require.True(t, at.Truncate(time.Microsecond).Equal(got), "%s: %s", text, got)
	}
	_, none, err := request.ReadTimePosition(id.Job, nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestKeyPosition_keyOfAnyText(t *testing.T) {
	t.Parallel()
	rowID := id.NewSource(clock.Real(), rand.Reader).New(id.Run)
	for _, key := range []string{"", "a", "a~b", "~", "run_~", "名字"} {
		text := request.KeyPosition(key, rowID)
		got, gotID, err := request.ReadKeyPosition(id.Run, &text)
		require.NoError(t, err)
		require.Equal(t, []string{key, rowID}, []string{got, gotID})
	}
}

func TestReadPosition_invalidIsRefused(t *testing.T) {
	t.Parallel()
	rowID := id.NewSource(clock.Real(), rand.Reader).New(id.Job)
	for _, bad := range []string{
		"", "job_", "run_" + rowID[4:], rowID + "0", "x~" + rowID, "~" + rowID, "2026-11-27~" + rowID, rowID + "~",
		"0000-01-01T00:00:00Z~" + rowID, "0001-01-01T00:00:00+01:00~" + rowID, "9999-12-31T23:30:00-01:00~" + rowID,
	} {
		_, _, err := request.ReadTimePosition(id.Job, &bad)
		require.True(t, fault.Is(err, fault.Invalid), bad)
	}
	_, _, err := request.ReadKeyPosition(id.Job, &rowID)
	require.True(t, fault.Is(err, fault.Invalid))
}

// gRPC refuses a response with a header that has a line break, and names have any character.
func TestSetNext_positionOfAnyText(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"run_1", "7", "5.1.0.1", "2026-11-27T03:00:00.5Z~job_1", "a\nb\r\tc~run_1", "100%41 ~run_1", "a+b~run_1", "名字~run_1", "\x7f~run_1"} {
		h := &header{}
		require.NoError(t, request.SetNext(grpc.NewContextWithServerTransportStream(t.Context(), h), true, last))
		sent := h.md.Get("x-service-after")[0]
		require.Regexp(t, "^[!-~]*$", sent)
		require.Equal(t, last, request.NextOf(sent))
	}
	for _, plain := range []string{"run_1", "2026-11-27T03:00:00.5Z~job_1", "5.1.0.1"} { // as earlier gateways read them
		h := &header{}
		require.NoError(t, request.SetNext(grpc.NewContextWithServerTransportStream(t.Context(), h), true, plain))
		require.Equal(t, []string{plain}, h.md.Get("x-service-after"))
	}
}

// Rows are added in front while the list is read by its links. Every row that was there before is shown once.
func TestSetPageHeaders_positionSurvivesNewRows(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC))
	ids := id.NewSource(clk, rand.Reader)
	rows := []string{} // newest first
	add := func() {
		clk.Advance(time.Millisecond)
		rows = slices.Insert(rows, 0, ids.New(id.Job))
	}
	for range 95 {
		add()
	}
	before := slices.Clone(rows)
	link := regexp.MustCompile(`^<([^>]*)>; rel="next"$`)
	var seen []string
	for target := "/api/jobs?limit=10&state=queued&offset=0"; target != ""; {
		at, err := url.Parse(target)
		require.NoError(t, err)
		var after *string
		if given := at.Query().Get("after"); given != "" {
			after = &given
		}
		_, last, err := request.ReadTimePosition(id.Job, after)
		require.NoError(t, err)
		left := rows
		if last != "" {
			left = slices.DeleteFunc(slices.Clone(rows), func(row string) bool { return row >= last })
		}
		page, more := request.CutPage(left[:min(len(left), 11)], request.Page{Limit: 10})
		seen = append(seen, page...)
		h := http.Header{}
		request.SetPageHeaders(h, at, request.Page{Limit: 10}, more, -1, request.TimePosition(id.Time(page[len(page)-1]), page[len(page)-1]))
		if target = ""; h.Get("Link") != "" {
			target = link.FindStringSubmatch(h.Get("Link"))[1]
			require.NotContains(t, target, "offset")
			require.Contains(t, target, "state=queued")
		}
		for range 3 {
			add()
		}
		rows = slices.DeleteFunc(rows, func(row string) bool { return row == page[len(page)-1] }) // the position need not exist
	}
	require.Equal(t, before, seen)
}
