package apidoc

import (
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/signalbox-dev/signalbox/gen/route"
)

// Protoset returns a handler that serves the descriptors of the table's calls as a FileDescriptorSet, the format
// that grpcurl's -protoset and buf read.
func (f Headers) Protoset(table []route.Route) (http.Handler, error) {
	data, err := protoset(table)
	if err != nil {
		return nil, err
	}
	return f.document("application/protobuf", data), nil
}

// protoset returns a FileDescriptorSet of the table's services and of all imported files. Each file comes after the
// files that it imports. Methods that are not in the table are left out.
func protoset(table []route.Route) ([]byte, error) {
	public := map[string]bool{}
	c := collector{seen: map[string]bool{}, public: public}
	for _, rt := range table {
		public[strings.ReplaceAll(rt.RPC, "/", ".")] = true
	}
	for _, rt := range table {
		if rt.RPC == "" {
			continue
		}
		service, _, _ := strings.Cut(rt.RPC, "/")
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", rt.RPC, err)
		}
		c.add(d.ParentFile())
	}
	c.add(errdetails.File_google_rpc_error_details_proto) // the types of error details
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(&c.set)
	if err != nil {
		return nil, fmt.Errorf("write the descriptors: %w", err)
	}
	return data, nil
}

type collector struct {
	set    descriptorpb.FileDescriptorSet
	seen   map[string]bool
	public map[string]bool
}

func (c *collector) add(fd protoreflect.FileDescriptor) {
	if c.seen[fd.Path()] {
		return
	}
	c.seen[fd.Path()] = true
	for i := range fd.Imports().Len() {
		c.add(fd.Imports().Get(i).FileDescriptor)
	}
	file := protodesc.ToFileDescriptorProto(fd)
	var services []*descriptorpb.ServiceDescriptorProto
	for _, s := range file.GetService() {
		var methods []*descriptorpb.MethodDescriptorProto
		for _, m := range s.GetMethod() {
			if c.public[file.GetPackage()+"."+s.GetName()+"."+m.GetName()] {
				methods = append(methods, m)
			}
		}
		if s.Method = methods; len(methods) > 0 {
			services = append(services, s)
		}
	}
	file.Service = services
	c.set.File = append(c.set.File, file)
}
