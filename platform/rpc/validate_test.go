package rpc_test

import (
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

func fieldsOf(t *testing.T, err error) []fault.Field {
	t.Helper()
	require.Error(t, err)
	f := fault.From(err)
	require.Equal(t, fault.Invalid, f.Kind)
	return f.Fields
}

func TestValidate(t *testing.T) {
	t.Parallel()
	require.NoError(t, rpc.Validate(pingSize("size", 500)))

	got := fieldsOf(t, rpc.Validate(pingSize("size", 501)))
	require.Len(t, got, 1)
	require.Equal(t, []any{"size"}, got[0].Loc)
	require.Equal(t, fault.TypeLessThanEqual, got[0].Type)
	require.Equal(t, int32(501), got[0].Input)
	require.NotEmpty(t, got[0].Msg)

	got = fieldsOf(t, rpc.Validate(pingSize("size", -1)))
	require.Equal(t, fault.TypeGreaterThanEqual, got[0].Type)
	require.Equal(t, map[string]any{"ge": int32(0)}, got[0].Ctx)
	require.Equal(t, "Input should be greater than or equal to 0", got[0].Msg)
}

func TestValidate_omitsTextAndSecrets(t *testing.T) {
	t.Parallel()
	got := fieldsOf(t, rpc.Validate(pingText("hunter2"+strings.Repeat("x", 20))))
	require.Equal(t, fault.Field{
		Loc: []any{"text"}, Msg: "String should have at most 20 characters", Type: fault.TypeStringLong,
		Ctx: map[string]any{"max_length": uint64(20)},
	}, got[0])

	got = fieldsOf(t, rpc.Validate(pingSize("pin", 1234)))
	require.Equal(t, []any{"pin"}, got[0].Loc)
	require.Nil(t, got[0].Input, "a number with debug_redact is a secret too")
}

func TestValidate_reportsAllAndNestedFields(t *testing.T) {
	t.Parallel()
	m := pingSize("size", math.MaxInt32)
	list := m.Mutable(pingType().Fields().ByName("nested")).List()
	list.Append(protoreflect.ValueOfMessage(ping()))
	list.Append(protoreflect.ValueOfMessage(pingSize("size", -5)))
	got := fieldsOf(t, rpc.Validate(m))
	require.Len(t, got, 2)
	require.Equal(t, []any{"size"}, got[0].Loc)
	require.Equal(t, []any{"nested", 1, "size"}, got[1].Loc)
}

func TestServer_validatesMessages(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "registry", handlers: echo()})
			cc := w.dial(t, "jobs", "registry")
			_, err := invoke(t.Context(), cc, "PeerOnce", pingSize("size", -1))
			got := fieldsOf(t, err)
			require.Equal(t, []any{"size"}, got[0].Loc)
			require.Equal(t, fault.TypeGreaterThanEqual, got[0].Type)

			s, err := openStream(t.Context(), cc, "PeerStream")
			require.NoError(t, err)
			for _, m := range []*dynamicpb.Message{ping(), pingSize("size", -1)} {
				require.NoError(t, s.SendMsg(m))
			}
			require.NoError(t, s.RecvMsg(ping()), "the first message is valid")
			err = s.RecvMsg(ping())
			require.NotEqual(t, io.EOF, err)
			require.Equal(t, []any{"size"}, fieldsOf(t, err)[0].Loc)

			_, err = invoke(t.Context(), w.dial(t, "gateway", "registry"), "User", pingSize("size", -1))
			require.True(t, fault.Is(err, fault.Unauthenticated), "access is checked before validation")
		})
	}
}
