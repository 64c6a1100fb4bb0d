package restjson_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestDecodeBodies(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ body, want string }{
		"empty object":          {`{}`, ``},
		"white space":           {" {\n\t\"steps\" : 3\r } ", `steps: 3`},
		"escaped name":          {`{"step\u0073": 3}`, `steps: 3`},
		"int64":                 {`{"tokens": 9007199254740993}`, `tokens: 9007199254740993`},
		"int64 minimum":         {`{"tokens": -9223372036854775808}`, `tokens: -9223372036854775808`},
		"uint64":                {`{"bytes_seen": 18446744073709551615}`, `bytes_seen: 18446744073709551615`},
		"uint32":                {`{"small": 4294967295}`, `small: 4294967295`},
		"double":                {`{"value": 1.5e3}`, `value: 1500`},
		"whole double":          {`{"value": 3}`, `value: 3`},
		"NaN as a string":       {`{"value": "NaN"}`, `value: nan`},
		"infinities as strings": {`{"value": "-Infinity", "rate": "Infinity"}`, `value: -inf rate: inf`},
		"bool":                  {`{"archived": true}`, `archived: true`},
		"bytes":                 {`{"blob": "AP8="}`, `blob: "\000\377"`},
		"enum":                  {`{"state": "ended_well"}`, `state: JOB_STATE_ENDED_WELL`},
		"time":                  {`{"started_at": "2026-11-21T03:00:00.123456+00:00"}`, `started_at { seconds: 1795230000 nanos: 123456000 }`},
		"time of another zone":  {`{"started_at": "2026-11-21T04:00:00+01:00"}`, `started_at { seconds: 1795230000 }`},
		"time with Z":           {`{"started_at": "2026-11-21T03:00:00Z"}`, `started_at { seconds: 1795230000 }`},
		"message":               {`{"child": {"next": {"name": "x"}}}`, `child { next { name: "x" } }`},
		"list":                  {`{"names": ["a", "b"]}`, `names: "a" names: "b"`},
		"empty list":            {`{"names": []}`, ``},
		"list of messages":      {`{"children": [{}, {"name": "b"}]}`, `children {} children { name: "b" }`},
		"list of enums":         {`{"states": ["queued"]}`, `states: JOB_STATE_QUEUED`},
		"list of times":         {`{"times": ["1970-01-01T00:00:01Z"]}`, `times { seconds: 1 }`},
		"map":                   {`{"counts": {"a": 1, "A": 2}}`, `counts { key: "a" value: 1 } counts { key: "A" value: 2 }`},
		"map by integer":        {`{"by_step": {"-7": {"name": "x"}}}`, `by_step { key: -7 value { name: "x" } }`},
		"map by bool":           {`{"flags": {"true": "x"}}`, `flags { key: true value: "x" }`},
		"null for an optional":  {`{"note": null, "seed": null}`, ``},
		"null for a message":    {`{"child": null, "started_at": null}`, ``},
		"null in a oneof":       {`{"left": "x", "right": null}`, `left: "x"`},
		"optional zero":         {`{"seed": 0, "note": ""}`, `seed: 0 note: ""`},
		"raw JSON":              {`{"spec": { "b" : [1.50, 1e2, "\u00e9"], "a": null }}`, `spec: "{\"b\":[1.50,1e2,\"\\u00e9\"],\"a\":null}"`},
		"raw JSON scalar":       {`{"spec": 9007199254740993}`, `spec: "9007199254740993"`},
		"raw JSON null":         {`{"spec": null, "extra": null}`, ``},
		"raw JSON empty object": {`{"extra": { }}`, `extra: "{}"`},
		"raw JSON list":         {`{"requirements": [ {"a": [ ]}, null, "x" ]}`, `requirements: "{\"a\":[]}" requirements: "null" requirements: "\"x\""`},
		"escapes":               {`{"job_id": "\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é"}`, `job_id: "\"\\/\b\f\n\r\té😀é"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, f := decoded(t, tc.body)
			require.Nil(t, f)
			require.Empty(t, cmp.Diff(sampleOf(t, tc.want), got, protocmp.Transform(), cmpopts.EquateNaNs()))
		})
	}
}

// at returns a fault as `loc type`, for tables.
func at(f fault.Field) string { return fmt.Sprintf("%v %s", f.Loc, f.Type) }

func TestDecodeFaultPaths(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"next":`, 70) + `{}` + strings.Repeat(`}`, 70)
	cases := map[string]struct{ body, want string }{
		"not JSON":                {`{"steps": 3,}`, `[body 12] json_invalid`},
		"only white space":        {` `, `[body 1] json_invalid`},
		"trailing bytes":          {`{} {}`, `[body 3] json_invalid`},
		"trailing NUL":            {"{}\x00", `[body 2] json_invalid`},
		"bare NaN":                {`{"value": NaN}`, `[body 10] json_invalid`},
		"leading zero":            {`{"steps": 03}`, `[body 11] json_invalid`},
		"plus sign":               {`{"steps": +3}`, `[body 10] json_invalid`},
		"lone minus":              {`{"steps": -}`, `[body 11] json_invalid`},
		"open fraction":           {`{"value": 1.}`, `[body 12] json_invalid`},
		"open exponent":           {`{"value": 1e}`, `[body 12] json_invalid`},
		"single quotes":           {`{'steps': 3}`, `[body 1] json_invalid`},
		"no colon":                {`{"steps" 3}`, `[body 9] json_invalid`},
		"no comma":                {`{"steps":1 "rate":2}`, `[body 11] json_invalid`},
		"unterminated string":     {`{"job_id": "a`, `[body 13] json_invalid`},
		"control character":       {"{\"job_id\": \"a\nb\"}", `[body 13] json_invalid`},
		"bad escape":              {`{"job_id": "\x"}`, `[body 13] json_invalid`},
		"bad unicode escape":      {`{"job_id": "\u00g0"}`, `[body 14] json_invalid`},
		"short unicode escape":    {`{"job_id": "\u00`, `[body 14] json_invalid`},
		"lone surrogate":          {`{"job_id": "\ud83d"}`, `[body 18] json_invalid`},
		"two high surrogates":     {`{"job_id": "\ud83d\ud83d"}`, `[body 24] json_invalid`},
		"invalid UTF-8":           {"{\"job_id\": \"\xff\"}", `[body 12] json_invalid`},
		"overlong UTF-8":          {"{\"job_id\": \"\xc0\xaf\"}", `[body 12] json_invalid`},
		"too deep":                {`{"child":` + deep + `}`, `[body 513] json_invalid`},
		"too deep where unknown":  {`{"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, `[body 68] json_invalid`},
		"a list as body":          {`[]`, `[body] dict_type`},
		"a string as body":        {`"x"`, `[body] dict_type`},
		"null as body":            {`null`, `[body] dict_type`},
		"unknown name":            {`{"nope": {"a": [1]}}`, `[body nope] extra_forbidden`},
		"camelCase":               {`{"jobId": "x"}`, `[body jobId] extra_forbidden`},
		"other case":              {`{"STEPS": 3}`, `[body STEPS] extra_forbidden`},
		"name of an extension":    {`{"[sample.x]": 3}`, `[body [sample.x]] extra_forbidden`},
		"repeated name":           {`{"steps": 3, "steps": 4}`, `[body steps] duplicate_key`},
		"repeated name, escaped":  {`{"steps": 3, "step\u0073": 4}`, `[body steps] duplicate_key`},
		"unknown name in a child": {`{"child": {"next": {"nope": 1}}}`, `[body child next nope] extra_forbidden`},
		"string for an integer":   {`{"steps": "3"}`, `[body steps] int_type`},
		"fraction for an integer": {`{"steps": 3.0}`, `[body steps] int_type`},
		"exponent for an integer": {`{"steps": 3e0}`, `[body steps] int_type`},
		"bool for an integer":     {`{"steps": true}`, `[body steps] int_type`},
		"null for an integer":     {`{"steps": null}`, `[body steps] int_type`},
		"integer past int32":      {`{"steps": 2147483648}`, `[body steps] int_parsing`},
		"integer past int64":      {`{"tokens": 9223372036854775808}`, `[body tokens] int_parsing`},
		"negative for uint32":     {`{"small": -1}`, `[body small] int_parsing`},
		"integer past uint64":     {`{"bytes_seen": 18446744073709551616}`, `[body bytes_seen] int_parsing`},
		"string for a number":     {`{"value": "1.5"}`, `[body value] float_type`},
		"other case of NaN":       {`{"value": "nan"}`, `[body value] float_type`},
		"object for a number":     {`{"value": {}}`, `[body value] float_type`},
		"overflow of a double":    {`{"value": 1e400}`, `[body value] finite_number`},
		"overflow of a float":     {`{"rate": 1e39}`, `[body rate] finite_number`},
		"number for a string":     {`{"job_id": 3}`, `[body job_id] string_type`},
		"null for a string":       {`{"job_id": null}`, `[body job_id] string_type`},
		"NUL in a string":         {`{"job_id": "a\u0000"}`, `[body job_id] value_error`},
		"string for a bool":       {`{"archived": "true"}`, `[body archived] bool_type`},
		"number for a bool":       {`{"archived": 1}`, `[body archived] bool_type`},
		"number for bytes":        {`{"blob": 1}`, `[body blob] string_type`},
		"bytes not base64":        {`{"blob": "*"}`, `[body blob] value_error`},
		"unknown enum":            {`{"state": "sleeping"}`, `[body state] enum`},
		"enum by proto name":      {`{"state": "JOB_STATE_QUEUED"}`, `[body state] enum`},
		"enum unspecified":        {`{"state": "unspecified"}`, `[body state] enum`},
		"enum by number":          {`{"state": 1}`, `[body state] enum`},
		"time without offset":     {`{"started_at": "2026-11-21T03:00:00"}`, `[body started_at] datetime_parsing`},
		"time with a short hour":  {`{"started_at": "2026-11-21T3:00:00Z"}`, `[body started_at] datetime_parsing`},
		"time with a comma":       {`{"started_at": "2026-11-21T03:00:00,5Z"}`, `[body started_at] datetime_parsing`},
		"time on an invalid date": {`{"started_at": "2026-02-30T03:00:00Z"}`, `[body started_at] datetime_parsing`},
		"time before year one":    {`{"started_at": "0000-01-01T00:00:00Z"}`, `[body started_at] datetime_parsing`},
		"number for a time":       {`{"started_at": 3}`, `[body started_at] datetime_parsing`},
		"object for a time":       {`{"started_at": {"seconds": 3}}`, `[body started_at] datetime_parsing`},
		"list for a message":      {`{"child": []}`, `[body child] dict_type`},
		"object for a list":       {`{"names": {}}`, `[body names] list_type`},
		"null for a list":         {`{"names": null}`, `[body names] list_type`},
		"null in a list":          {`{"names": ["a", null]}`, `[body names 1] string_type`},
		"fault in a list":         {`{"children": [{}, {"weight": "x"}]}`, `[body children 1 weight] float_type`},
		"list for a map":          {`{"counts": []}`, `[body counts] dict_type`},
		"null in a map":           {`{"counts": {"a": null}}`, `[body counts a] int_type`},
		"repeated key":            {`{"counts": {"a": 1, "a": 2}}`, `[body counts a] duplicate_key`},
		"key not an integer":      {`{"by_step": {"x": {}}}`, `[body by_step x] int_parsing`},
		"key with a leading zero": {`{"by_step": {"07": {}}}`, `[body by_step 07] int_parsing`},
		"fault under a key":       {`{"by_step": {"7": {"name": 1}}}`, `[body by_step 7 name] string_type`},
		"two of a oneof":          {`{"left": "x", "right": {}}`, `[body right] value_error`},
		"raw repeated name":       {`{"spec": {"a": [{"b": 1, "b": 2}]}}`, `[body spec a 0 b] duplicate_key`},
		"raw NUL":                 {`{"spec": {"a": "\u0000"}}`, `[body spec a] value_error`},
		"raw NUL in a name":       {`{"spec": {"\u0000": 1}}`, "[body spec \x00] value_error"},
		"raw overflow":            {`{"spec": [1e400]}`, `[body spec 0] finite_number`},
		"raw not JSON":            {`{"spec": {a: 1}}`, `[body 10] json_invalid`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, f := decoded(t, tc.body)
			require.NotNil(t, f)
			require.Equal(t, fault.Invalid, f.Kind)
			require.Len(t, f.Fields, 1)
			require.Equal(t, tc.want, at(f.Fields[0]))
			require.NotEmpty(t, f.Fields[0].Msg)
			require.Nil(t, f.Fields[0].Input, "the input may be a secret and must not be repeated")
		})
	}
}

func TestDecodeReportsEveryFault(t *testing.T) {
	t.Parallel()
	_, f := decoded(t, `{"steps": "x", "nope": 1, "children": [{"name": 1}, 2], "rate": 1}`)
	require.NotNil(t, f)
	var got []string
	for _, field := range f.Fields {
		got = append(got, at(field))
	}
	require.Equal(t, []string{
		"[body steps] int_type", "[body nope] extra_forbidden",
		"[body children 0 name] string_type", "[body children 1] dict_type",
	}, got)
}

func TestDecodeBounds(t *testing.T) {
	t.Parallel()
	_, f := decoded(t, `{"names": [`+strings.Repeat("1,", 100)+`1]}`)
	require.NotNil(t, f)
	require.Len(t, f.Fields, restjson.MaxFaults)

	_, f = decoded(t, `{"names": [`+strings.Repeat(`"",`, restjson.MaxValues)+`""]}`)
	require.NotNil(t, f)
	require.Equal(t, fault.TooLarge, f.Kind)

	_, f = decoded(t, `{"`+strings.Repeat("n", 1000)+`": 1}`)
	require.NotNil(t, f)
	require.Len(t, []rune(f.Fields[0].Loc[1].(string)), 65)
}

func TestBodyMustNotSetPathFields(t *testing.T) {
	t.Parallel()
	codec := restjson.New()
	body := restjson.NewBody(io.NopCloser(strings.NewReader(`{"job_id": "other", "steps": 1}`)), "job_id")
	err := codec.NewDecoder(body).Decode(dynamicpb.NewMessage(sampleType(t)))
	require.Error(t, err)
	require.Same(t, err, body.Err())
	require.Equal(t, "[body job_id] extra_forbidden", at(fault.From(err).Fields[0]))
}

func TestDecoderReadErrors(t *testing.T) {
	t.Parallel()
	codec := restjson.New()
	m := dynamicpb.NewMessage(sampleType(t))

	require.ErrorIs(t, codec.NewDecoder(strings.NewReader("")).Decode(m), io.EOF)
	require.NoError(t, codec.NewDecoder(strings.NewReader(`{"steps": 1}`)).Decode(m))

	broken := restjson.NewBody(io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)))
	require.ErrorIs(t, codec.NewDecoder(broken).Decode(m), io.ErrUnexpectedEOF)
	require.ErrorIs(t, broken.Err(), io.ErrUnexpectedEOF)

	// The generated handlers treat io.EOF as an empty body, so a read error must not be io.EOF.
	eof := restjson.NewBody(io.NopCloser(iotest.ErrReader(fmt.Errorf("cut off: %w", io.EOF))))
	err := codec.NewDecoder(eof).Decode(m)
	require.Error(t, err)
	require.False(t, errors.Is(err, io.EOF))
}

func TestDecodeSingleField(t *testing.T) {
	t.Parallel()
	codec := restjson.New()

	var raw []byte
	require.NoError(t, codec.Unmarshal([]byte(` { "a" : 1 } `), &raw))
	require.Equal(t, `{"a":1}`, string(raw))
	require.Error(t, codec.Unmarshal([]byte(`{"a": "\u0000"}`), &raw))

	var empty *emptypb.Empty
	require.NoError(t, codec.Unmarshal([]byte(`null`), &empty))
	require.Nil(t, empty)
	require.NoError(t, codec.Unmarshal([]byte(`{}`), &empty))
	require.True(t, proto.Equal(&emptypb.Empty{}, empty))
	require.Equal(t, "[body x] extra_forbidden", at(fault.From(codec.Unmarshal([]byte(`{"x":1}`), &empty)).Fields[0]))

	require.Error(t, codec.Unmarshal([]byte(`{}`), new(chan int)))
	var s *string
	require.Error(t, codec.Unmarshal([]byte(`{}`), &s))
}

func TestSampleRoundTrip(t *testing.T) {
	t.Parallel()
	want := sampleOf(t, `job_id: "j" tokens: -1 value: nan state: JOB_STATE_QUEUED started_at { seconds: 5 nanos: 1000 }
		child { name: "c" } names: "a" counts { key: "k" value: 3 } seed: 0 left: "l" spec: "{\"a\":1}" blob: "\001"`)
	data, err := restjson.New().Marshal(want)
	require.NoError(t, err)
	// Unset fields are written as null. The decoder refuses null for an enum without presence, so the sample sets its
	// enum.
	got, f := decoded(t, string(bytes.TrimSpace(data)))
	require.Nil(t, f)
	require.Empty(t, cmp.Diff(want, got, protocmp.Transform(), cmpopts.EquateNaNs()))
}
