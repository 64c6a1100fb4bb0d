package fault_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestHTTPStatus(t *testing.T) {
	t.Parallel()
	want := map[fault.Kind]int{
		fault.Invalid: 422, fault.Refused: 400, fault.Unauthenticated: 401, fault.Forbidden: 403,
		fault.Absent: 404, fault.MethodNotAllowed: 405, fault.Conflict: 409, fault.Length: 411,
		fault.TooLarge: 413, fault.Range: 416, fault.Limited: 429, fault.Internal: 500, fault.Unconfigured: 501,
		fault.Dependency: 502, fault.Unavailable: 503,
	}
	require.Len(t, fault.Kinds(), len(want))
	for _, k := range fault.Kinds() {
		require.Equal(t, want[k], fault.HTTPStatus(k), k)
	}
	require.Equal(t, http.StatusInternalServerError, fault.HTTPStatus("nonsense"))
}

func TestAbsentf(t *testing.T) {
	t.Parallel()
	require.Equal(t, "no such job: job_1", fault.Absentf("job", "job_1").Text())
	require.Equal(t, "no such share", fault.Absentf("share", "").Text())
}

func TestNew_format(t *testing.T) {
	t.Parallel()
	require.Equal(t, "90% is full", fault.New(fault.Refused, "", "90%% is full").Msg)
	require.Equal(t, "quota: requested 16 GPUs", fault.New(fault.Forbidden, "quota", "quota: requested %d GPUs", 16).Msg)
}

func TestError_Wrap_causeOnlyInLogs(t *testing.T) {
	t.Parallel()
	cause := errors.New("dial 10.0.0.7: refused")
	plain := fault.New(fault.Dependency, "store", "the object store failed")
	e := plain.Wrap(cause)
	require.ErrorIs(t, e, cause)
	require.Contains(t, e.Error(), "10.0.0.7")
	require.NotContains(t, e.Text(), "10.0.0.7")
	require.NoError(t, plain.Unwrap(), "Wrap must not modify the original")
}

func TestError_Text_internalIsGeneric(t *testing.T) {
	t.Parallel()
	e := fault.New(fault.Internal, "", "row 7 of table secrets")
	require.Equal(t, "Internal Server Error", e.Text())
	require.Contains(t, e.Error(), "row 7")
}

func TestError_Is(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("stop job: %w", fault.New(fault.Conflict, "terminal", "the job has ended"))
	require.ErrorIs(t, err, fault.New(fault.Conflict, "terminal", "other words"))
	require.NotErrorIs(t, err, fault.New(fault.Conflict, "other", ""))
	require.NotErrorIs(t, err, fault.New(fault.Refused, "terminal", ""))
	require.True(t, fault.Is(err, fault.Conflict))
	require.True(t, fault.HasCode(err, "terminal"))
	require.False(t, fault.Is(nil, fault.Internal))
	require.False(t, fault.HasCode(nil, ""))
}

func TestError_Under(t *testing.T) {
	t.Parallel()
	e := fault.InvalidFields(fault.At(fault.TypeMissing, "Field required", "spec", "pools", 0))
	moved := e.Under("body")
	require.Equal(t, []any{"body", "spec", "pools", 0}, moved.Fields[0].Loc)
	require.Equal(t, []any{"spec", "pools", 0}, e.Fields[0].Loc)
	require.Contains(t, e.Error(), "spec.pools[0]: Field required")
}

func TestError_With_returnsCopies(t *testing.T) {
	t.Parallel()
	e := fault.New(fault.Limited, "", "slow down")
	require.Equal(t, "login", e.WithCode("login").Code)
	require.Equal(t, time.Minute, e.WithRetryAfter(time.Minute).RetryAfter)
	require.Empty(t, e.Code)
	require.Zero(t, e.RetryAfter)
}

func TestFromContext(t *testing.T) {
	t.Parallel()
	require.Nil(t, fault.FromContext(errors.New("other")))
	require.Equal(t, fault.CodeDeadline, fault.FromContext(fmt.Errorf("q: %w", context.DeadlineExceeded)).Code)
	canceled := fault.FromContext(context.Canceled)
	require.Equal(t, fault.CodeCanceled, canceled.Code)
	require.ErrorIs(t, canceled, context.Canceled)
}

func TestPath(t *testing.T) {
	t.Parallel()
	cases := map[string][]any{
		"name":                  {"name"},
		"spec.pools[2].name":    {"spec", "pools", 2, "name"},
		`labels["a.b"]`:         {"labels", "a.b"},
		`env[""]`:               {"env", ""},
		`[3]`:                   {3},
		"":                      {},
		`hparams["learn-rate"]`: {"hparams", "learn-rate"},
	}
	for want, loc := range cases {
		require.Equal(t, want, fault.Path(loc))
	}
}

func TestError_Text_genericPerKind(t *testing.T) {
	t.Parallel()
	seen := map[string]fault.Kind{}
	for _, k := range fault.Kinds() {
		text := (&fault.Error{Kind: k}).Text()
		require.NotEmpty(t, text)
		require.NotContains(t, seen, text, "%s and %s have the same text", k, seen[text])
		seen[text] = k
	}
}
