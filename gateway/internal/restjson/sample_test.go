package restjson_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"

	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// sampleType returns a message type with a field of every kind that the API contract uses.
func sampleType(tb testing.TB) protoreflect.MessageDescriptor {
	tb.Helper()
	text, err := os.ReadFile("testdata/sample.txtpb")
	require.NoError(tb, err)
	var fdp descriptorpb.FileDescriptorProto
	require.NoError(tb, prototext.Unmarshal(text, &fdp))
	fd, err := protodesc.NewFile(&fdp, protoregistry.GlobalFiles)
	require.NoError(tb, err)
	return fd.Messages().ByName("Sample")
}

// sampleOf parses a message in protobuf's text format, which does not depend on restjson.
func sampleOf(tb testing.TB, text string) proto.Message {
	tb.Helper()
	m := dynamicpb.NewMessage(sampleType(tb))
	require.NoError(tb, prototext.Unmarshal([]byte(text), m))
	return m
}

// encoded returns the value of one member in the JSON of a sample.
func encoded(tb testing.TB, text, member string) string {
	tb.Helper()
	data, err := restjson.New().Marshal(sampleOf(tb, text))
	require.NoError(tb, err)
	var members map[string]json.RawMessage
	require.NoError(tb, json.Unmarshal(data, &members), string(data))
	require.Contains(tb, members, member)
	return string(members[member])
}

// decoded decodes the body into a sample and returns the sample, or the fault.
func decoded(tb testing.TB, body string) (proto.Message, *fault.Error) {
	tb.Helper()
	m := dynamicpb.NewMessage(sampleType(tb))
	err := restjson.New().Unmarshal([]byte(body), m)
	if err == nil {
		return m, nil
	}
	var f *fault.Error
	require.True(tb, errors.As(err, &f), "%v", err)
	return m, f
}
