package fault_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// anyError returns a random Error with any of the values that services set.
func anyError(r *rand.Rand) *fault.Error {
	pick := func(words ...any) any { return words[r.IntN(len(words))] }
	kinds := fault.Kinds()
	e := fault.New(kinds[r.IntN(len(kinds))], pick("", "quota", "schema", "token_revoked").(string), "%s",
		pick("", "a sentence", "ein Wort: über", `"quoted" <b>`, "two\nlines").(string))
	e.OAuth = pick("", "", "authorization_pending", "slow_down").(string)
	e.RetryAfter = pick(time.Duration(0), time.Duration(-1), time.Second, 90*time.Second, 1500*time.Millisecond).(time.Duration)
	for range r.IntN(4) {
		f := fault.Field{
			Type: pick(fault.TypeMissing, fault.TypeValue, fault.TypeStringShort).(string), Msg: pick("Field required", "zu kurz").(string),
			Input: pick(nil, "text", "", true, 1, -7, 0.5, int64(9007199254740993), []any{"a", 1}, map[string]any{"k": nil}),
		}
		for range r.IntN(5) {
			f.Loc = append(f.Loc, pick("name", "spec", 0, 17, "a.b", "", "7", "ключ"))
		}
		if r.IntN(2) == 0 {
			f.Ctx = map[string]any{"ge": 1, "pattern": "^a$"}
		}
		e.Fields = append(e.Fields, f)
	}
	return e
}

// The response to an error is the same, however many processes have passed the error on.
func TestRender_sameAfterAnyNumberOfHops(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 21))
	for n := range 600 {
		e := anyError(r)
		var hopped error = e
		for range 1 + n%3 {
			hopped = fmt.Errorf("call a peer: %w", overWire(t, fault.From(hopped)))
		}
		for _, render := range []func(error, string) fault.Rendered{fault.Render, fault.RenderOpenAI} {
			near, far := render(e, "req_1"), render(hopped, "req_1")
			require.Equal(t, near.Status, far.Status)
			require.Equal(t, near.Header, far.Header, "%+v", e)
			require.Equal(t, string(near.Body), string(far.Body), "%+v", e)
		}
	}
}

func TestFrom_ignoresForeignDetails(t *testing.T) {
	t.Parallel()
	st, err := status.New(codes.NotFound, "row 7 of host-7").WithDetails(
		&errdetails.ErrorInfo{Domain: "googleapis.com", Reason: "NO_ROW", Metadata: map[string]string{"kind": "refused", "fields": `[{"msg":"host-7"}]`}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Minute)},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "host-7", Description: "host-7"}}},
		&errdetails.DebugInfo{Detail: "host-7"},
	)
	require.NoError(t, err)
	e := fault.From(st.Err())
	require.Equal(t, fault.Absent, e.Kind, "only the status code is used")
	require.Empty(t, e.Code)
	require.Empty(t, e.Fields)
	got := fault.Render(e, "")
	require.NotContains(t, string(got.Body), "host-7")
	require.JSONEq(t, `{"detail":"Not Found"}`, string(got.Body))
}

func TestFrom_unknownKindIsInternal(t *testing.T) {
	t.Parallel()
	got := fault.Render(fault.From(overWire(t, fault.New("newer_than_us", "c", "words"))), "")
	require.Equal(t, 500, got.Status)
	require.NotContains(t, string(got.Body), "words", "an internal error does not show its message")
}

func TestFrom_malformedFields(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"not JSON": "{", "not a list": `{"loc":[]}`, "list of numbers": `[1]`, "string": `"x"`, "null": "null", "truncated": `[{"loc":["a"`,
	} {
		st, err := status.New(codes.InvalidArgument, "invalid request").WithDetails(&errdetails.ErrorInfo{
			Domain: "signalbox", Reason: "schema", Metadata: map[string]string{"kind": "invalid", "fields": raw},
		})
		require.NoError(t, err)
		e := fault.From(st.Err())
		require.Equal(t, fault.Invalid, e.Kind, name)
		require.Equal(t, "schema", e.Code, name)
		require.Empty(t, e.Fields, name)
		require.Equal(t, 422, fault.Render(e, "").Status)
	}
}

func TestGRPCStatus_keepsFirst50Fields(t *testing.T) {
	t.Parallel()
	for given, want := range map[int]int{1: 1, 49: 49, 50: 50, 51: 50, 1000: 50} {
		fields := make([]fault.Field, given)
		for i := range fields {
			fields[i] = fault.At(fault.TypeMissing, "Field required", "items", i)
		}
		got := fault.From(overWire(t, fault.InvalidFields(fields...)))
		require.Len(t, got.Fields, want)
		require.Equal(t, fields[:want], got.Fields)
	}
}

func TestGRPCStatus_halvesFieldsUntilTheyFit(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]int{10: 48, 100: 24, 200: 12} {
		fields := make([]fault.Field, 48)
		for i := range fields {
			fields[i] = fault.Field{Loc: []any{"items", i}, Msg: "x", Type: fault.TypeValue, Input: strings.Repeat("i", size)}
		}
		got := fault.From(overWire(t, fault.InvalidFields(fields...)))
		require.Len(t, got.Fields, want, size)
		require.Equal(t, fields[:want], got.Fields)
	}
}

// A field whose value cannot be sent keeps its path, message and type.
func TestGRPCStatus_dropsOversizedFieldValues(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<16)
	for name, f := range map[string]fault.Field{
		"input not JSON":      {Input: math.Inf(-1)},
		"input too long":      {Input: long},
		"limits too long":     {Ctx: map[string]any{"pattern": long}},
		"input is a function": {Input: func() {}},
	} {
		f.Loc, f.Msg, f.Type = []any{"a", 1}, "out of bounds", fault.TypeValue
		got := fault.From(overWire(t, fault.InvalidFields(f)))
		require.Equal(t, []fault.Field{{Loc: []any{"a", 1}, Msg: "out of bounds", Type: fault.TypeValue}}, got.Fields, name)
	}
}

func TestGRPCStatus_truncatesAtCharacterBoundary(t *testing.T) {
	t.Parallel()
	for _, pad := range []string{"", "x", "xx"} {
		e := fault.From(overWire(t, fault.New(fault.Refused, "c", "%s", pad+strings.Repeat("€", 1000))))
		require.LessOrEqual(t, len(e.Msg), 2048)
		require.Greater(t, len(e.Msg), 2040)
		require.NotContains(t, e.Msg, "\uFFFD")
		require.True(t, strings.HasPrefix(e.Msg, pad+"€"))
	}
}

func TestRender_bodyIsAlwaysJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"\xff\xfe", "a\x00b", "</script>", "\u2028", strings.Repeat("ä", 1<<20), `"`, "\\"} {
		for _, e := range []*fault.Error{
			fault.New(fault.Refused, text, "%s", text),
			fault.InvalidFields(fault.Field{Loc: []any{text}, Msg: text, Type: text, Input: text, Ctx: map[string]any{text: text}}),
			fault.InvalidFields(fault.Field{Loc: []any{text, func() {}, 1}, Msg: text, Type: text}),
		} {
			for _, got := range []fault.Rendered{fault.Render(e, "r"), fault.RenderOpenAI(e, "r")} {
				require.True(t, json.Valid(got.Body), "%.40q", got.Body)
				require.Equal(t, fmt.Sprint(len(got.Body)), got.Header.Get("Content-Length"))
			}
		}
	}
}
