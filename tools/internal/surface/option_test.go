package surface

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// of returns a buf image with one method that has the given options.
func of(t *testing.T, options string) []byte {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{}
	for _, fd := range []protoreflect.FileDescriptor{
		descriptorpb.File_google_protobuf_descriptor_proto, annotations.File_google_api_http_proto, annotations.File_google_api_annotations_proto,
	} {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(fd))
	}
	text, err := os.ReadFile("../../openapi/testdata/options.txtpb")
	require.NoError(t, err)
	own := &descriptorpb.FileDescriptorProto{}
	require.NoError(t, prototext.Unmarshal(text, own))
	set.File = append(set.File, own)
	files, err := protodesc.NewFiles(set)
	require.NoError(t, err)
	service := &descriptorpb.FileDescriptorProto{}
	require.NoError(t, prototext.UnmarshalOptions{Resolver: dynamicpb.NewTypes(files)}.Unmarshal([]byte(`
		name: "signalbox/jobs/v1/job.proto" package: "signalbox.jobs.v1" syntax: "proto3"
		dependency: "google/api/annotations.proto" dependency: "signalbox/options/v1/options.proto"
		message_type { name: "M" }
		service { name: "JobService" method { name: "GetJob" input_type: ".signalbox.jobs.v1.M" output_type: ".signalbox.jobs.v1.M" options {
			[google.api.http] { get: "/api/jobs" additional_bindings { get: "/api/runs" } } `+options+` } } }`), service))
	set.File = append(set.File, service)
	data, err := proto.Marshal(set)
	require.NoError(t, err)
	return data
}

const open = `[signalbox.options.v1.access] { credential: CREDENTIAL_NONE } `

func TestRead_statusesApplyToAllBindings(t *testing.T) {
	t.Parallel()
	s, err := Read(of(t, open+`[signalbox.options.v1.fails] { status: 409 status: 404 } [signalbox.options.v1.succeeds] { status: 202 }`), []byte(`{}`))
	require.NoError(t, err)
	require.Len(t, s.Routes, 2)
	for i, r := range s.Routes {
		require.Equal(t, []int{404, 409}, r.Fails)
		require.Equal(t, []int{202}, r.Succeeds)
		require.Equal(t, i == 1, r.Additional, r.Pattern)
	}
	s, err = Read(of(t, open), []byte(`{}`))
	require.NoError(t, err)
	require.Empty(t, s.Routes[0].Fails)
}

func TestRead_invalidStatuses(t *testing.T) {
	t.Parallel()
	for _, option := range []string{
		`[signalbox.options.v1.fails] { status: 200 }`, `[signalbox.options.v1.fails] { status: 500 }`, `[signalbox.options.v1.fails] { status: 499 }`,
		`[signalbox.options.v1.fails] { status: 404 status: 404 }`, `[signalbox.options.v1.fails] { status: 0 }`,
		`[signalbox.options.v1.succeeds] { status: 404 }`, `[signalbox.options.v1.succeeds] { status: 100 }`,
	} {
		_, err := Read(of(t, open+option), []byte(`{}`))
		require.ErrorContains(t, err, "signalbox.jobs.v1.JobService.GetJob", option)
		require.ErrorContains(t, err, "is not allowed or repeated", option)
	}
}

func TestRead_drawnPassword(t *testing.T) {
	t.Parallel()
	for drawn, option := range map[bool]string{true: "drawn_password: true", false: ""} {
		s, err := Read(of(t, `[signalbox.options.v1.access] { credential: CREDENTIAL_USER role: ROLE_OPERATOR need: NEED_READ `+option+` }`), []byte(`{}`))
		require.NoError(t, err)
		require.Equal(t, drawn, s.Routes[0].Drawn)
	}
}
