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

// sampleType is a message type with a field of every kind that the contract knows.
func sampleType(t testing.TB) protoreflect.MessageDescriptor {
	t.Helper()
	text, err := os.ReadFile("testdata/sample.txtpb")
	require.NoError(t, err)
	var fdp descriptorpb.FileDescriptorProto
	require.NoError(t, prototext.Unmarshal(text, &fdp))
	fd, err := protodesc.NewFile(&fdp, protoregistry.GlobalFiles)
	require.NoError(t, err)
	return fd.Messages().ByName("Sample")
}

// sampleOf reads a message from protobuf's own text form, which knows nothing of the contract.
func sampleOf(t testing.TB, text string) proto.Message {
	t.Helper()
	m := dynamicpb.NewMessage(sampleType(t))
	require.NoError(t, prototext.Unmarshal([]byte(text), m))
	return m
}

// encoded is one member of the encoding of a sample.
func encoded(t testing.TB, text, member string) string {
	t.Helper()
	data, err := restjson.New().Marshal(sampleOf(t, text))
	require.NoError(t, err)
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &members), string(data))
	require.Contains(t, members, member)
	return string(members[member])
}

// decoded reads body into a sample and answers it in protobuf's text form.
func decoded(t testing.TB, body string) (proto.Message, *fault.Error) {
	t.Helper()
	m := dynamicpb.NewMessage(sampleType(t))
	err := restjson.New().Unmarshal([]byte(body), m)
	if err == nil {
		return m, nil
	}
	var f *fault.Error
	require.True(t, errors.As(err, &f), "%v", err)
	return m, f
}
