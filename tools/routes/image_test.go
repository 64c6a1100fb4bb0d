package main

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
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const user = `[signalbox.options.v1.access] { credential: CREDENTIAL_USER role: ROLE_OPERATOR need: NEED_READ }`

// image returns a buf image of a small product. Its package has one service, JobService, with the given methods. Each
// method is a MethodDescriptorProto in protobuf's text format.
func image(t *testing.T, pkg string, methods ...string) []byte {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{}
	for _, fd := range []protoreflect.FileDescriptor{
		descriptorpb.File_google_protobuf_descriptor_proto, annotations.File_google_api_http_proto,
		annotations.File_google_api_annotations_proto, emptypb.File_google_protobuf_empty_proto,
		timestamppb.File_google_protobuf_timestamp_proto, durationpb.File_google_protobuf_duration_proto,
	} {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(fd))
	}
	options := &descriptorpb.FileDescriptorProto{}
	read(t, "testdata/options.txtpb", options)
	set.File = append(set.File, options)
	files, err := protodesc.NewFiles(set)
	require.NoError(t, err)

	jobs := &descriptorpb.FileDescriptorProto{}
	read(t, "testdata/jobs.txtpb", jobs)
	service := &descriptorpb.ServiceDescriptorProto{Name: new("JobService")}
	for _, text := range methods {
		m := &descriptorpb.MethodDescriptorProto{}
		require.NoError(t, prototext.UnmarshalOptions{Resolver: dynamicpb.NewTypes(files)}.Unmarshal([]byte(text), m))
		service.Method = append(service.Method, m)
	}
	set.File = append(set.File, jobs)
	if pkg == jobs.GetPackage() {
		jobs.Service = append(jobs.Service, service)
	} else {
		set.File = append(set.File, &descriptorpb.FileDescriptorProto{
			Name: new("other.proto"), Package: new(pkg), Syntax: new("proto3"),
			Dependency: []string{jobs.GetName(), "google/api/annotations.proto", options.GetName()}, Options: jobs.GetOptions(),
			Service: []*descriptorpb.ServiceDescriptorProto{service},
		})
	}
	data, err := proto.Marshal(set)
	require.NoError(t, err)
	return data
}

func read(t *testing.T, path string, m proto.Message) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, prototext.Unmarshal(text, m), path)
}

// method returns one method in text form.
func method(name, input, output, options string) string {
	return `name: "` + name + `" input_type: ".signalbox.jobs.v1.` + input + `" output_type: "` + output + `" options { ` + options + ` }`
}

func get(path string) string { return `[google.api.http] { get: "` + path + `" } ` + user }
