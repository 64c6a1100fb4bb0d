package grpcproxy

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/signalbox-dev/signalbox/gateway/internal/middleware"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// markMissing returns the error of a call as REST reports it: the fault of a field that the request does not set gets
// the type "missing", and the fault of an invalid job submission gets the code "schema" (middleware.WithGateCode).
func markMissing(rpc string, request frame, err error) error {
	f := fault.From(err)
	if f == nil || len(f.Fields) == 0 {
		return err
	}
	m := read(rpc, request)
	if m == nil { // the service could not decode the request either
		return err
	}
	return middleware.WithGateCode(rpc, f.MarkMissing(func(loc []any) bool { return unset(m, loc) }))
}

// read returns the request message of a call, or nil if it cannot be decoded.
func read(rpc string, request frame) protoreflect.Message {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(rpc, "/", ".")))
	if err != nil {
		return nil
	}
	method, ok := d.(protoreflect.MethodDescriptor)
	if !ok {
		return nil
	}
	m := dynamicpb.NewMessage(method.Input())
	if err := proto.Unmarshal(request.data.Materialize(), m); err != nil {
		return nil
	}
	return m
}

// unset reports whether m does not set the field at the path loc but sets the message that contains it.
func unset(m protoreflect.Message, loc []any) bool {
	if len(loc) == 0 {
		return false
	}
	name, _ := loc[0].(string)
	fd := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	switch {
	case fd == nil:
		return false
	case len(loc) == 1:
		return !m.Has(fd)
	case fd.Message() == nil || fd.IsMap():
		return false
	case !fd.IsList():
		return m.Has(fd) && unset(m.Get(fd).Message(), loc[1:])
	}
	i, ok := loc[1].(int)
	list := m.Get(fd).List()
	return ok && i >= 0 && i < list.Len() && unset(list.Get(i).Message(), loc[2:])
}
