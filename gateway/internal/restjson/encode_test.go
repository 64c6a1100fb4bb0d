package restjson_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	optionsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/options/v1"
)

func TestEncodeMembers(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ text, member, want string }{
		"int64 is a number":           {`tokens: 9007199254740993`, "tokens", `9007199254740993`},
		"int64 minimum":               {`tokens: -9223372036854775808`, "tokens", `-9223372036854775808`},
		"uint64 is a number":          {`bytes_seen: 18446744073709551615`, "bytes_seen", `18446744073709551615`},
		"uint32":                      {`small: 4294967295`, "small", `4294967295`},
		"zero without presence":       {``, "steps", `0`},
		"empty string":                {``, "job_id", `""`},
		"false":                       {``, "archived", `false`},
		"double":                      {`value: 0.1`, "value", `0.1`},
		"whole double":                {`value: 3`, "value", `3`},
		"large double":                {`value: 1e21`, "value", `1e+21`},
		"small double":                {`value: 1e-7`, "value", `1e-07`},
		"float has its own digits":    {`rate: 0.1`, "rate", `0.1`},
		"NaN is a string":             {`value: nan`, "value", `"NaN"`},
		"infinity is a string":        {`value: inf`, "value", `"Infinity"`},
		"minus infinity":              {`rate: -inf`, "rate", `"-Infinity"`},
		"bytes":                       {`blob: "\000\377"`, "blob", `"AP8="`},
		"enum":                        {`state: JOB_STATE_ENDED_WELL`, "state", `"ended_well"`},
		"enum unspecified":            {``, "state", `null`},
		"unknown enum number":         {`state: 99`, "state", `null`},
		"time has six digits":         {`started_at { seconds: 1795230000 }`, "started_at", `"2026-11-21T03:00:00.000000+00:00"`},
		"time is cut to microseconds": {`started_at { seconds: 1795230000 nanos: 123456789 }`, "started_at", `"2026-11-21T03:00:00.123456+00:00"`},
		"unset time":                  {``, "started_at", `null`},
		"unset message":               {``, "child", `null`},
		"empty message":               {`child {}`, "child", `{"name":"","next":null,"weight":0}`},
		"unset optional":              {``, "note", `null`},
		"optional set to empty":       {`note: ""`, "note", `""`},
		"unset optional int":          {``, "seed", `null`},
		"optional int zero":           {`seed: 0`, "seed", `0`},
		"unset oneof member":          {`left: "x"`, "right", `null`},
		"set oneof member":            {`left: "x"`, "left", `"x"`},
		"empty list":                  {``, "names", `[]`},
		"list":                        {`names: "a" names: "b"`, "names", `["a","b"]`},
		"list of messages":            {`children { name: "a" }`, "children", `[{"name":"a","next":null,"weight":0}]`},
		"list of enums":               {`states: JOB_STATE_QUEUED states: JOB_STATE_RUNNING`, "states", `["queued","running"]`},
		"list of times":               {`times { seconds: -1 }`, "times", `["1969-12-31T23:59:59.000000+00:00"]`},
		"empty map":                   {``, "counts", `{}`},
		"map in order of its keys":    {`counts { key: "b" value: 2 } counts { key: "a" value: 1 }`, "counts", `{"a":1,"b":2}`},
		"map by integer":              {`by_step { key: 7 value { name: "x" } }`, "by_step", `{"7":{"name":"x","next":null,"weight":0}}`},
		"map by bool":                 {`flags { key: true value: "x" }`, "flags", `{"true":"x"}`},
		"raw JSON":                    {`spec: "{ \"a\" : [1, 9007199254740993] }"`, "spec", `{"a":[1,9007199254740993]}`},
		"raw JSON empty":              {``, "spec", `null`},
		"raw JSON optional unset":     {``, "extra", `null`},
		"raw JSON optional":           {`extra: "[]"`, "extra", `[]`},
		"raw JSON list":               {`requirements: "1" requirements: "{}" requirements: ""`, "requirements", `[1,{},null]`},
		"string escapes":              {`job_id: "a\"\\\n\r\t\001\177é"`, "job_id", `"a\"\\\n\r\t\u0001\u007fé"`},
		"string beyond the BMP":       {`job_id: "😀<&>"`, "job_id", `"😀<&>"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, encoded(t, tc.text, tc.member))
		})
	}
}

func TestEncodeOrderAndSnakeCase(t *testing.T) {
	t.Parallel()
	data, err := restjson.New().Marshal(sampleOf(t, ``))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(data), `{"job_id":"","tokens":0,"steps":0,`), string(data))
	require.NotContains(t, string(data), "jobId")
}

func TestEncodeIsDeterministic(t *testing.T) {
	t.Parallel()
	codec := restjson.New()
	m := sampleOf(t, `counts { key: "b" } counts { key: "a" } counts { key: "c" } value: 0.25 tokens: 3`)
	first, err := codec.Marshal(m)
	require.NoError(t, err)
	for range 50 {
		again, err := codec.Marshal(proto.Clone(m))
		require.NoError(t, err)
		require.Equal(t, string(first), string(again))
	}
}

func TestEncodeReplacesInvalidUTF8(t *testing.T) {
	t.Parallel()
	data, err := restjson.New().Marshal("a\xffb")
	require.NoError(t, err)
	require.Equal(t, `"a�b"`, string(data))
}

func TestEncodeRejectsInvalidMessages(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"invalid raw JSON":     `spec: "{"`,
		"time out of range":    `started_at { seconds: 253402300800 }`,
		"negative nanoseconds": `started_at { nanos: -1 }`,
	} {
		_, err := restjson.New().Marshal(sampleOf(t, text))
		require.Error(t, err, name)
	}
}

func TestMarshalValues(t *testing.T) {
	t.Parallel()
	stamp := &timestamppb.Timestamp{Seconds: 1}
	cases := map[string]struct {
		value any
		want  string
	}{
		"empty":            {&emptypb.Empty{}, `{}`},
		"nil message":      {(*timestamppb.Timestamp)(nil), `null`},
		"nil":              {nil, `null`},
		"nil list":         {[]*timestamppb.Timestamp(nil), `[]`},
		"list":             {[]*timestamppb.Timestamp{stamp, stamp}, `["1970-01-01T00:00:01.000000+00:00","1970-01-01T00:00:01.000000+00:00"]`},
		"list of strings":  {[]string{"a"}, `["a"]`},
		"map":              {map[string]*timestamppb.Timestamp{"b": stamp, "a": nil}, `{"a":null,"b":"1970-01-01T00:00:01.000000+00:00"}`},
		"map of integers":  {map[int32]int64{2: 9007199254740993}, `{"2":9007199254740993}`},
		"raw JSON":         {[]byte(`{"a": 1}`), `{"a":1}`},
		"raw JSON empty":   {[]byte(nil), `null`},
		"string":           {"x", `"x"`},
		"bool":             {true, `true`},
		"int32":            {int32(-3), `-3`},
		"uint64":           {uint64(3), `3`},
		"double":           {1.5, `1.5`},
		"enum":             {optionsv1.Role_ROLE_ADMIN, `"admin"`},
		"enum unspecified": {optionsv1.Role_ROLE_UNSPECIFIED, `null`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := restjson.New().Marshal(tc.value)
			require.NoError(t, err)
			require.Equal(t, tc.want, string(data))
		})
	}
	_, err := restjson.New().Marshal(make(chan int))
	require.Error(t, err)
}

func TestEncoderWritesLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	enc := restjson.New().NewEncoder(&out)
	require.NoError(t, enc.Encode(&emptypb.Empty{}))
	require.NoError(t, enc.Encode(&emptypb.Empty{}))
	require.Equal(t, "{}\n{}\n", out.String())
	require.Equal(t, "application/json", restjson.New().ContentType(nil))
	require.Error(t, enc.Encode(make(chan int)))
}

// The room that a long list reserves depends on what it holds, not on its first element.
func TestMarshal_reservesLittleForShortElements(t *testing.T) {
	t.Parallel()
	short := &ingestv1.Series{Key: "x"}
	long := &ingestv1.Series{Key: strings.Repeat("x", 1<<16)}
	all := []*ingestv1.Series{long}
	for range 20_000 {
		all = append(all, short)
	}
	columns := make([]string, len(all))
	columns[0] = long.GetKey()
	for _, m := range []any{&ingestv1.ListSeriesResponse{Series: all}, &jobsv1.SearchRunsRequest{Columns: columns}} {
		got, err := restjson.New().Marshal(m)
		require.NoError(t, err)
		require.Greater(t, len(got), 1<<16)
		require.Less(t, cap(got), 5*len(got))
	}
}
