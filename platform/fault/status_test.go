package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// overWire simulates a hop: it encodes the error's status and decodes it to an error again.
func overWire(t *testing.T, err error) error {
	t.Helper()
	var carrier interface{ GRPCStatus() *status.Status }
	require.ErrorAs(t, err, &carrier)
	p := carrier.GRPCStatus().Proto()
	raw, merr := proto.Marshal(p)
	require.NoError(t, merr)
	require.Less(t, len(raw), 16000, "the status must fit in one header")
	arrived := &spb.Status{}
	require.NoError(t, proto.Unmarshal(raw, arrived))
	return status.ErrorProto(arrived)
}

func TestFrom_afterTwoHops(t *testing.T) {
	t.Parallel()
	for _, kind := range fault.Kinds() {
		e := &fault.Error{Kind: kind, Code: "some_code", Msg: "a sentence", RetryAfter: 1500 * time.Millisecond}
		if kind == fault.Internal {
			e.Msg = "Internal Server Error"
		}
		first := fault.From(fmt.Errorf("call jobs: %w", overWire(t, e)))
		second := fault.From(overWire(t, first))
		if diff := cmp.Diff(e, second, cmpopts.IgnoreUnexported(fault.Error{})); diff != "" {
			t.Errorf("%s changed in transit:\n%s", kind, diff)
		}
	}
}

func TestFrom_fieldsUnchanged(t *testing.T) {
	t.Parallel()
	e := fault.InvalidFields(
		fault.Field{
			Loc: []any{"spec", "pools", 3, "labels", "a.b"}, Msg: "too small", Type: fault.TypeGreaterThanEqual,
			Input: json.Number("9007199254740993"), Ctx: map[string]any{"ge": json.Number("1")},
		},
		fault.At(fault.TypeMissing, "Field required", "name"),
	).WithCode("schema")
	got := fault.From(overWire(t, e))
	require.Empty(t, cmp.Diff(e.Fields, got.Fields))
	require.Equal(t, "schema", got.Code)
}

func TestGRPCStatus_standardDetails(t *testing.T) {
	t.Parallel()
	e := fault.InvalidFields(fault.At(fault.TypeMissing, "Field required", "spec", "pools", 0)).WithRetryAfter(time.Second)
	st := e.GRPCStatus()
	require.Equal(t, codes.InvalidArgument, st.Code())
	require.Len(t, st.Details(), 3)
	info, ok := st.Details()[0].(*errdetails.ErrorInfo)
	require.True(t, ok)
	require.Equal(t, "signalbox", info.GetDomain())
	bad, ok := st.Details()[1].(*errdetails.BadRequest)
	require.True(t, ok)
	require.Equal(t, "spec.pools[0]", bad.GetFieldViolations()[0].GetField())
	require.Equal(t, fault.TypeMissing, bad.GetFieldViolations()[0].GetReason())
}

func TestFrom_keepsInnerMessageOnly(t *testing.T) {
	t.Parallel()
	inner := fault.New(fault.Conflict, "", "the job has ended")
	wrapped := fmt.Errorf("select from secret_table: %w", inner)
	require.Same(t, inner, fault.From(wrapped), "the cause is kept for the log")
	require.Equal(t, "the job has ended", fault.From(wrapped).Text())

	remote := status.Error(codes.NotFound, "dial tcp 10.0.0.7:5432")
	e := fault.From(fmt.Errorf("load: %w", remote))
	require.Equal(t, fault.Absent, e.Kind)
	require.Equal(t, "Not Found", e.Text())
	require.Contains(t, e.Error(), "10.0.0.7", "the log text keeps the cause")
}

func TestFrom_foreignStatus(t *testing.T) {
	t.Parallel()
	cases := []struct {
		code codes.Code
		kind fault.Kind
		back codes.Code
	}{
		{codes.Canceled, fault.Unavailable, codes.Canceled},
		{codes.Unknown, fault.Internal, codes.Internal},
		{codes.InvalidArgument, fault.Refused, codes.InvalidArgument},
		{codes.DeadlineExceeded, fault.Unavailable, codes.DeadlineExceeded},
		{codes.NotFound, fault.Absent, codes.NotFound},
		{codes.AlreadyExists, fault.Conflict, codes.FailedPrecondition},
		{codes.PermissionDenied, fault.Forbidden, codes.PermissionDenied},
		{codes.ResourceExhausted, fault.TooLarge, codes.ResourceExhausted},
		{codes.FailedPrecondition, fault.Conflict, codes.FailedPrecondition},
		{codes.Aborted, fault.Conflict, codes.FailedPrecondition},
		{codes.OutOfRange, fault.Refused, codes.InvalidArgument},
		{codes.Unimplemented, fault.Unconfigured, codes.Unimplemented},
		{codes.Internal, fault.Internal, codes.Internal},
		{codes.Unavailable, fault.Unavailable, codes.Unavailable},
		{codes.DataLoss, fault.Internal, codes.Internal},
		{codes.Unauthenticated, fault.Unauthenticated, codes.Unauthenticated},
	}
	require.Len(t, cases, 16, "the table must have every code except OK")
	for _, c := range cases {
		e := fault.From(status.Error(c.code, "host-7"))
		require.Equal(t, c.kind, e.Kind, c.code)
		require.NotContains(t, e.Text(), "host-7")
		require.Equal(t, c.back, e.GRPCStatus().Code())
	}
}

func TestFrom_contextErrors(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		e := fault.From(fmt.Errorf("query: %w", cause))
		require.Equal(t, fault.Unavailable, e.Kind)
		require.ErrorIs(t, fault.From(overWire(t, e)), cause)
		require.ErrorIs(t, fault.From(status.FromContextError(cause).Err()), cause)
	}
}

func TestFrom_otherErrors(t *testing.T) {
	t.Parallel()
	require.Nil(t, fault.From(nil))
	cause := errors.New("disk on fire")
	e := fault.From(cause)
	require.Equal(t, fault.Internal, e.Kind)
	require.ErrorIs(t, e, cause)
	require.NotContains(t, e.GRPCStatus().Message(), "fire")
}

func TestGRPCStatus_hostileText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 1<<20)
	many := make([]fault.Field, 10_000)
	for i := range many {
		many[i] = fault.At(fault.TypeValue, long, "items", i)
	}
	cases := map[string]*fault.Error{
		"not utf-8":    fault.New(fault.Refused, "c", "bad \xff\xfe text"),
		"very long":    fault.New(fault.Refused, "c", "%s", long),
		"many fields":  fault.InvalidFields(many...),
		"long path":    fault.InvalidFields(fault.At(fault.TypeValue, "x", long, "\xff")),
		"not JSON":     fault.InvalidFields(fault.Field{Loc: []any{"a"}, Type: fault.TypeValue, Msg: "x", Input: math.NaN()}),
		"long input":   fault.InvalidFields(fault.Field{Loc: []any{"a"}, Type: fault.TypeValue, Msg: "x", Input: long}),
		"unknown kind": fault.New("nonsense", "c", "x"),
	}
	for name, e := range cases {
		got := fault.From(overWire(t, e))
		require.Equal(t, e.Kind, got.Kind, name)
		if len(e.Fields) > 0 {
			require.NotEmpty(t, got.Fields, name)
			require.Equal(t, fault.TypeValue, got.Fields[0].Type, name)
		}
	}
}
