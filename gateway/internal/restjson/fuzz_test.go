package restjson_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// ours returns the members of the sample that protojson encodes differently: enums and raw JSON.
func ours() []protoreflect.Name {
	return []protoreflect.Name{"state", "states", "spec", "requirements", "extra"}
}

func clearOurs(m protoreflect.Message) (cleared bool) {
	for _, name := range ours() {
		fd := m.Descriptor().Fields().ByName(name)
		cleared = cleared || m.Has(fd)
		m.Clear(fd)
	}
	return cleared
}

func same(t *testing.T, want, got proto.Message, note string) {
	t.Helper()
	require.Empty(t, cmp.Diff(want, got, protocmp.Transform(), cmpopts.EquateNaNs()), note)
}

// readable decodes a protobuf message and reports whether that succeeded. protobuf's slow path, which only dynamic
// messages use, panics on some map entries without a key. Such a panic is not a bug of restjson.
func readable(wire []byte, into proto.Message) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return proto.Unmarshal(wire, into) == nil
}

// FuzzEncode checks that protojson decodes restjson's output to the same message.
func FuzzEncode(f *testing.F) {
	md := sampleType(f)
	codec := restjson.New()
	for _, text := range []string{
		``, `job_id: "é\"" tokens: -5 value: 1e300 rate: 1e-30`, `started_at { seconds: 1795230000 nanos: 123000 }`,
		`children { weight: nan } counts { key: "\001" value: 7 } by_step { key: -1 } flags { key: false }`,
		`seed: 0 note: "" left: "" blob: "\377"`, `right { next { next {} } } times {} bytes_seen: 18446744073709551615`,
	} {
		wire, err := proto.Marshal(sampleOf(f, text))
		require.NoError(f, err)
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		want := dynamicpb.NewMessage(md)
		if !readable(wire, want) {
			return
		}
		clearOurs(want)
		want.SetUnknown(nil)
		data, err := codec.Marshal(want)
		if err != nil {
			return // a time out of range, which the contract cannot represent
		}
		again, err := codec.Marshal(want)
		require.NoError(t, err)
		require.Equal(t, string(data), string(again))
		got := dynamicpb.NewMessage(md)
		require.NoError(t, protojson.Unmarshal(data, got), string(data))
		cut, err := codec.Marshal(got) // times lose their nanoseconds, so compare the encodings
		require.NoError(t, err)
		require.Equal(t, string(data), string(cut))
	})
}

// FuzzDecode decodes bodies with restjson. If a message has none of the fields that restjson treats differently,
// protojson must decode its body to the same message. If the message has a state, its JSON must be unchanged after
// restjson has decoded and encoded it again.
func FuzzDecode(f *testing.F) {
	md := sampleType(f)
	codec := restjson.New()
	for _, body := range []string{
		`{}`, `{"job_id":"\u00e9","tokens":-5,"value":1e300}`, `{"started_at":"2026-11-21T03:00:00.5+01:00"}`,
		`{"children":[{"weight":"NaN"}],"counts":{"":7},"by_step":{"-1":{}},"flags":{"false":""}}`,
		`{"seed":null,"left":"x","right":null,"blob":"AA=="}`, `{"spec":{"a":[1.0,null,"\ud83d\ude00"]},"state":"queued"}`,
		`{"steps":3.0}`, `{"jobId":""}`, `{"steps":1,"steps":2}`, `[]`, `{"value":1e400}`, `{} x`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := dynamicpb.NewMessage(md)
		if codec.Unmarshal(body, got) != nil {
			return
		}
		data, err := codec.Marshal(got)
		require.NoError(t, err)
		if got.Has(md.Fields().ByName("state")) { // an unspecified enum is written as null, which is not accepted
			again := dynamicpb.NewMessage(md)
			require.NoError(t, codec.Unmarshal(data, again), string(data))
			written, err := codec.Marshal(again)
			require.NoError(t, err)
			require.Equal(t, string(data), string(written))
		}
		if clearOurs(got) {
			return
		}
		want := dynamicpb.NewMessage(md)
		require.NoError(t, protojson.Unmarshal(body, want), string(body))
		same(t, want, got, string(body))
	})
}

// FuzzPublicBody checks that decoding any body of any public request returns either a message or a fault of the
// client, and that a decoded message can be written as JSON and as protobuf.
func FuzzPublicBody(f *testing.F) {
	all := messages(f)
	codec := restjson.New()
	for i, mt := range all {
		m := mt.New()
		messageGenerator{rand.New(rand.NewPCG(uint64(i), 9))}.message(m, 2)
		data, err := codec.Marshal(m.Interface())
		require.NoError(f, err)
		f.Add(uint16(i), data)
	}
	f.Fuzz(func(t *testing.T, n uint16, body []byte) {
		mt := all[int(n)%len(all)]
		got := mt.New().Interface()
		if err := codec.Unmarshal(body, got); err != nil {
			bad := fault.From(err)
			require.Contains(t, []fault.Kind{fault.Invalid, fault.TooLarge}, bad.Kind, "%v", err)
			require.LessOrEqual(t, len(bad.Fields), restjson.MaxFaults)
			return
		}
		data, err := codec.Marshal(got)
		require.NoError(t, err, string(body))
		require.True(t, json.Valid(data), string(data))
		_, err = proto.Marshal(got)
		require.NoError(t, err, "an accepted message must marshal")
	})
}
