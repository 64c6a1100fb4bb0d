package groupcommit

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// sized returns an item that adds data of a kind. Its write inserts a row, which the tests count.
func sized(kind Kind, size int64, key Key) Item {
	item := insertItem("run_1", "s", key, 1)
	item.Kind, item.Size = kind, size
	return item
}

// limit sets the limits of a committer and returns a function that reads the number of requests beyond these limits.
func (b *harness) limit(limits map[Kind]int64) (over func(kind Kind) int64) {
	b.t.Helper()
	reader := sdkmetric.NewManualReader()
	quota, err := NewQuota(limits, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	require.NoError(b.t, err)
	b.quota = quota
	return func(kind Kind) (n int64) {
		var found metricdata.ResourceMetrics
		require.NoError(b.t, reader.Collect(b.t.Context(), &found))
		for _, s := range found.ScopeMetrics {
			for _, m := range s.Metrics {
				require.Equal(b.t, "ingest_over_limit_total", m.Name)
				for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
					if v, _ := p.Attributes.Value(attribute.Key("kind")); v.AsString() == kind.String() {
						n += p.Value
					}
				}
			}
		}
		return n
	}
}

func TestCommitter_group_itemsBeyondLimitRefusedAlone(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1", "run_2")
	over := b.limit(map[Kind]int64{Points: 1000})
	elsewhere := sized(Points, 900, Key{"w", 1})
	elsewhere.RunID = "run_2"
	got := b.storeAsGroup(sized(Points, 600, Key{"w", 1}), sized(Points, 500, Key{"w", 2}), sized(Points, 400, Key{"w", 2}), sized(Reports, 5000, Key{"w", 3}),
		sized(Points, 0, Key{"w", 4}), elsewhere)
	for i, one := range got {
		require.Equal(t, i == 1, fault.HasCode(one.err, "points_limit") && fault.Is(one.err, fault.Refused), "%d: %v", i, one.err)
	}
	require.Equal(t, 1000, b.count(`SELECT point_bytes FROM run WHERE id = 'run_1'`))
	require.Equal(t, 5000, b.count(`SELECT report_bytes FROM run WHERE id = 'run_1'`))
	require.Equal(t, 5, b.count(`SELECT count(*) FROM hparam_history`))
	require.EqualValues(t, 1, over(Points))
	require.True(t, fault.HasCode(b.storeAsGroup(sized(Points, 1, Key{"w", 5}))[0].err, "points_limit"))
}

func TestCommitter_group_overStoredInstead(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	over := b.limit(map[Kind]int64{Log: 1000})
	b.start()
	long := sized(Log, 900, Key{"w", 1})
	_, err := b.Store(t.Context(), long)
	require.NoError(t, err)
	for seq := int64(2); seq < 5; seq++ {
		more := sized(Log, 200, Key{"w", seq})
		more.Write, more.Over = nil, insertItem("run_1", "s", Key{"note", 1}, 1).Write
		_, err = b.Store(t.Context(), more)
		require.NoError(t, err)
	}
	foreign := sized(Log, 1, Key{"v", 7})
	foreign.Over = All()
	_, err = b.Store(t.Context(), foreign)
	require.NoError(t, err, "once the limit is reached, no smaller item is stored")
	require.Equal(t, 4, b.count(`SELECT seq FROM mark`))
	require.Equal(t, 1, b.count(`SELECT count(*) FROM mark`))
	require.Equal(t, 1, b.count(`SELECT count(*) FROM request_digest`))
	require.Zero(t, b.count(`SELECT count(*) FROM ahead`))
	require.EqualValues(t, 4, over(Log))
}

func TestCommitter_Claim_beyondLimitAddsNoRow(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	b.limit(map[Kind]int64{Reports: 2 * Cost})
	for seq := range int64(5) {
		stored, err := b.Claim(t.Context(), &Item{RunID: "run_1", Stream: "s", Key: Key{"w", seq + 1}, Digest: DigestOf(nil)})
		require.NoError(t, err)
		require.False(t, stored)
	}
	require.Equal(t, 2, b.count(`SELECT count(*) FROM request_digest`))
}
