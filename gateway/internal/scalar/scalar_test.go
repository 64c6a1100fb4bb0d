package scalar_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/signalbox-dev/signalbox/gateway/internal/scalar"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

func TestIntegerBounds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kinds     []protoreflect.Kind
		fits, bad []string
	}{
		"32 bits with a sign": {
			[]protoreflect.Kind{protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind},
			[]string{"2147483647", "-2147483648", "0", "-0", "1"},
			[]string{"2147483648", "-2147483649", "4294967295"},
		},
		"64 bits with a sign": {
			[]protoreflect.Kind{protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind},
			[]string{"9223372036854775807", "-9223372036854775808", "9007199254740993"},
			[]string{"9223372036854775808", "-9223372036854775809"},
		},
		"32 bits": {
			[]protoreflect.Kind{protoreflect.Uint32Kind, protoreflect.Fixed32Kind},
			[]string{"4294967295", "0"},
			[]string{"4294967296", "-1", "-0"},
		},
		"64 bits": {
			[]protoreflect.Kind{protoreflect.Uint64Kind, protoreflect.Fixed64Kind},
			[]string{"18446744073709551615", "0"},
			[]string{"18446744073709551616", "-1"},
		},
		"not an integer kind": {[]protoreflect.Kind{protoreflect.StringKind, protoreflect.BoolKind, protoreflect.DoubleKind}, nil, []string{"1"}},
	} {
		for _, kind := range tc.kinds {
			for _, text := range tc.fits {
				v, ok := scalar.Integer(kind, text)
				require.True(t, ok, "%s: %s as %s", name, text, kind)
				require.Equal(t, strings.Replace(text, "-0", "0", 1), v.String())
			}
			for _, text := range append(tc.bad, "", " 1", "1 ", "0x1", "1_0", "1.0", "1e0", "١", "NaN", "99999999999999999999999") {
				_, ok := scalar.Integer(kind, text)
				require.False(t, ok, "%s: %q as %s", name, text, kind)
			}
		}
	}
}

// A time is truncated to microseconds when it is written, and reading returns the truncated time.
func TestTimeRoundTrip(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{
		time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 21, 3, 0, 0, 123456789, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC), time.Unix(-1, 1000).UTC(),
	} {
		text, err := scalar.AppendTime(nil, timestamppb.New(at).ProtoReflect())
		require.NoError(t, err)
		require.Len(t, text, len(scalar.TimeLayout)+2)
		back, ok := scalar.Time(strings.Trim(string(text), `"`))
		require.True(t, ok, "%s", text)
		require.Equal(t, at.Truncate(time.Microsecond), back)
	}
	for _, bad := range []*timestamppb.Timestamp{{Seconds: 253402300800}, {Seconds: -62135596801}, {Nanos: -1}, {Nanos: 1_000_000_000}} {
		_, err := scalar.AppendTime(nil, bad.ProtoReflect())
		require.Error(t, err, "%v", bad)
	}
}

func TestEnumWords(t *testing.T) {
	t.Parallel()
	e := scalar.NewEnum(jobsv1.JobState(0).Descriptor())
	seen := map[string]bool{}
	for i := range jobsv1.JobState(0).Descriptor().Values().Len() {
		n := jobsv1.JobState(0).Descriptor().Values().Get(i).Number()
		word, ok := e.Word(n)
		require.Equal(t, n != 0, ok)
		if !ok {
			continue
		}
		require.False(t, seen[word], word)
		seen[word] = true
		back, ok := e.Number(word)
		require.True(t, ok)
		require.Equal(t, n, back)
		require.Contains(t, e.Expected(), "'"+word+"'")
	}
	for _, bad := range []string{"", "unspecified", "QUEUED", "JOB_STATE_QUEUED", "1"} {
		_, ok := e.Number(bad)
		require.False(t, ok, bad)
	}
}

func TestAppendStringRoundTrip(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", `a"b\\c`, "\n\r\t\x00\x1f\x7f", "żółć 🚂", "</script>\u2028"} {
		var back string
		require.NoError(t, json.Unmarshal(scalar.AppendString(nil, text), &back), "%q", text)
		require.Equal(t, text, back)
	}
	require.Equal(t, `"a`+"\ufffd"+`b"`, string(scalar.AppendString(nil, "a\xffb")))
}
