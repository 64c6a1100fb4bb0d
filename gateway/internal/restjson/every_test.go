package restjson_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// messages returns the message types of all public routes, including the types of their fields, sorted by name.
func messages(tb testing.TB) []protoreflect.MessageType {
	tb.Helper()
	seen := map[protoreflect.FullName]protoreflect.MessageType{}
	for _, rt := range route.Table() {
		if rt.Kind == route.Raw {
			continue
		}
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(rt.RPC, "/", ".")))
		require.NoError(tb, err)
		md, ok := d.(protoreflect.MethodDescriptor)
		require.True(tb, ok, rt.RPC)
		reach(tb, md.Input(), seen)
		reach(tb, md.Output(), seen)
	}
	var all []protoreflect.MessageType
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		all = append(all, seen[name])
	}
	require.Greater(tb, len(all), 50, "the messages of all public routes must be found")
	return all
}

func reach(tb testing.TB, md protoreflect.MessageDescriptor, seen map[protoreflect.FullName]protoreflect.MessageType) {
	tb.Helper()
	if seen[md.FullName()] != nil || strings.HasPrefix(string(md.FullName()), "google.") {
		return
	}
	mt, err := protoregistry.GlobalTypes.FindMessageByName(md.FullName())
	require.NoError(tb, err)
	seen[md.FullName()] = mt
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if fd.IsMap() {
			fd = fd.MapValue()
		}
		if fd.Message() != nil {
			reach(tb, fd.Message(), seen)
		}
	}
}

func TestEveryMessageRoundTrips(t *testing.T) {
	t.Parallel()
	codec := restjson.New()
	for _, mt := range messages(t) {
		for seed := range uint64(10) {
			want := mt.New()
			messageGenerator{rand.New(rand.NewPCG(seed, 7))}.message(want, 3)
			data, err := codec.Marshal(want.Interface())
			require.NoError(t, err, "%s, seed %d", mt.Descriptor().FullName(), seed)
			require.True(t, json.Valid(data), string(data))
			got := mt.New().Interface()
			require.NoError(t, codec.Unmarshal(data, got), "%s, seed %d: %s", mt.Descriptor().FullName(), seed, data)
			require.Empty(t, cmp.Diff(want.Interface(), got, protocmp.Transform(), cmpopts.EquateNaNs()), string(data))
			again, err := codec.Marshal(got)
			require.NoError(t, err)
			require.Equal(t, string(data), string(again), "a message must always have the same encoding")
		}
	}
}

// A message of a generated Go type, whose struct is read, has the same encoding as one that is read by the reflection of protobuf.
func TestEveryMessageEncodesWithAndWithoutItsGoType(t *testing.T) {
	t.Parallel()
	codec := restjson.New()
	for _, mt := range messages(t) {
		for seed := range uint64(10) {
			generated := mt.New()
			if seed > 0 { // the first one is empty
				messageGenerator{rand.New(rand.NewPCG(seed, 8))}.message(generated, 3)
			}
			raw, err := proto.Marshal(generated.Interface())
			require.NoError(t, err)
			dynamic := dynamicpb.NewMessage(mt.Descriptor())
			require.NoError(t, proto.Unmarshal(raw, dynamic))
			want, err := codec.Marshal(dynamic)
			require.NoError(t, err)
			got, err := codec.Marshal(generated.Interface())
			require.NoError(t, err)
			require.Equal(t, string(want), string(got), "%s, seed %d", mt.Descriptor().FullName(), seed)
		}
	}
}

func TestEveryMessageEncodesEveryField(t *testing.T) {
	t.Parallel()
	codec := restjson.New()
	for _, mt := range messages(t) {
		data, err := codec.Marshal(mt.New().Interface())
		require.NoError(t, err)
		var members map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(data, &members))
		fields := mt.Descriptor().Fields()
		require.Len(t, members, fields.Len(), "%s must encode every field", mt.Descriptor().FullName())
		for i := range fields.Len() {
			fd := fields.Get(i)
			value, ok := members[string(fd.Name())]
			require.True(t, ok, fd.FullName())
			switch {
			case fd.IsList():
				require.Equal(t, "[]", string(value), fd.FullName())
			case fd.IsMap():
				require.Equal(t, "{}", string(value), fd.FullName())
			case fd.HasPresence():
				require.Equal(t, "null", string(value), fd.FullName())
			}
		}
	}
}

func TestFieldNamesHaveOneSpelling(t *testing.T) {
	t.Parallel()
	for _, mt := range messages(t) {
		for i := range mt.Descriptor().Fields().Len() {
			fd := mt.Descriptor().Fields().Get(i)
			name := string(fd.Name())
			for _, other := range []string{fd.JSONName(), strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:], name + " ", "[" + name + "]"} {
				if other == name {
					continue
				}
				quoted, err := json.Marshal(other)
				require.NoError(t, err)
				requireOne(t, mt, `{`+string(quoted)+`:null}`, fault.TypeExtra, "body", other)
			}
		}
	}
}

// requireOne decodes a body and requires exactly one fault, with the given type and location.
func requireOne(t *testing.T, mt protoreflect.MessageType, body, typ string, loc ...any) {
	t.Helper()
	f := fault.From(restjson.New().Unmarshal([]byte(body), mt.New().Interface()))
	require.NotNil(t, f, "%s: %s", mt.Descriptor().FullName(), body)
	require.Equal(t, fault.Invalid, f.Kind, body)
	require.Len(t, f.Fields, 1, "%s: %s", mt.Descriptor().FullName(), body)
	require.Equal(t, typ, f.Fields[0].Type, "%s: %s", mt.Descriptor().FullName(), body)
	require.Equal(t, loc, f.Fields[0].Loc, "%s: %s", mt.Descriptor().FullName(), body)
	require.NotEmpty(t, f.Fields[0].Msg)
	require.Nil(t, f.Fields[0].Input, "the input must not be repeated")
}
