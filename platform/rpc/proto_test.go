package rpc_test

import (
	"context"
	"os"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	optionsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/options/v1"
)

const testService = "signalbox.rpctest.v1.TestService"

// TestMain registers a service for the tests. It builds the service by hand, so that the product's protos need no
// test methods.
func TestMain(m *testing.M) {
	file, err := protodesc.NewFile(testFile(), protoregistry.GlobalFiles)
	if err == nil {
		err = protoregistry.GlobalFiles.RegisterFile(file)
	}
	if err != nil {
		panic(err)
	}
	if code := m.Run(); code != 0 {
		os.Exit(code)
	}
	if err := goleak.Find(); err != nil {
		panic(err)
	}
}

func access(credential optionsv1.Credential, role optionsv1.Role, peers ...string) *optionsv1.Access {
	a := &optionsv1.Access{Credential: credential, Role: role, Peers: peers}
	if credential == user {
		a.Need = optionsv1.Need_NEED_READ
	}
	return a
}

func method(name string, a *optionsv1.Access, stream bool, level descriptorpb.MethodOptions_IdempotencyLevel) *descriptorpb.MethodDescriptorProto {
	o := &descriptorpb.MethodOptions{IdempotencyLevel: level.Enum()}
	if a != nil {
		proto.SetExtension(o, optionsv1.E_Access, a)
	}
	return &descriptorpb.MethodDescriptorProto{
		Name: &name, InputType: new(".signalbox.rpctest.v1.Ping"), OutputType: new(".signalbox.rpctest.v1.Ping"),
		ClientStreaming: new(stream), ServerStreaming: new(stream), Options: o,
	}
}

const (
	none  = optionsv1.Credential_CREDENTIAL_NONE
	user  = optionsv1.Credential_CREDENTIAL_USER
	agent = optionsv1.Credential_CREDENTIAL_AGENT
	unset = optionsv1.Credential_CREDENTIAL_UNSPECIFIED

	anyRole = optionsv1.Role_ROLE_UNSPECIFIED
	admin   = optionsv1.Role_ROLE_ADMIN

	repeatable = descriptorpb.MethodOptions_NO_SIDE_EFFECTS
	once       = descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
)

// methods returns the methods of the test service.
func methods() []*descriptorpb.MethodDescriptorProto {
	return []*descriptorpb.MethodDescriptorProto{
		method("Open", access(none, anyRole), false, repeatable),
		method("User", access(user, anyRole), false, repeatable),
		method("Admin", access(user, admin), false, once),
		method("First", &optionsv1.Access{Credential: user, Need: optionsv1.Need_NEED_NONE, DrawnPassword: true}, false, once),
		method("Ingest", access(optionsv1.Credential_CREDENTIAL_INGEST, anyRole), false, once),
		method("Deployment", access(optionsv1.Credential_CREDENTIAL_DEPLOYMENT, anyRole), false, once),
		method("Peer", access(unset, anyRole, "jobs", "gateway"), false, repeatable),
		method("PeerOnce", access(unset, anyRole, "jobs", "gateway"), false, once),
		method("Agent", access(agent, anyRole), false, once),
		method("PeerStream", access(unset, anyRole, "jobs", "gateway"), true, once),
		method("UserStream", access(user, anyRole), true, once),
		method("AgentStream", access(agent, anyRole), true, once),
	}
}

// badMethods returns access options with which a server must not start.
func badMethods() map[string]*optionsv1.Access {
	return map[string]*optionsv1.Access{
		"Missing":          nil,
		"Empty":            {},
		"Both":             access(user, anyRole, "jobs"),
		"RoleWithoutUser":  access(none, admin),
		"RoleOfPeers":      access(unset, admin, "jobs"),
		"PeerTwice":        access(unset, anyRole, "jobs", "jobs"),
		"PeerNode":         access(unset, anyRole, "node/nod_1"),
		"PeerEmpty":        access(unset, anyRole, ""),
		"NewCredential":    access(99, anyRole),
		"NewRole":          access(user, 99),
		"NoNeed":           {Credential: user},
		"NeedWithoutUser":  {Credential: none, Need: optionsv1.Need_NEED_READ},
		"NeedOfPeers":      {Peers: []string{"jobs"}, Need: optionsv1.Need_NEED_NONE},
		"NewNeed":          {Credential: user, Need: 99},
		"DrawnWithoutUser": {Credential: none, DrawnPassword: true},
	}
}

func testFile() *descriptorpb.FileDescriptorProto {
	text := &descriptorpb.FieldOptions{}
	proto.SetExtension(text, validate.E_Field, &validate.FieldRules{Type: &validate.FieldRules_String_{
		String_: &validate.StringRules{MaxLen: proto.Uint64(20)},
	}})
	size := &descriptorpb.FieldOptions{}
	proto.SetExtension(size, validate.E_Field, &validate.FieldRules{Type: &validate.FieldRules_Int32{Int32: &validate.Int32Rules{
		GreaterThan: &validate.Int32Rules_Gte{Gte: 0}, LessThan: &validate.Int32Rules_Lte{Lte: 500},
	}}})
	secret := proto.Clone(size).(*descriptorpb.FieldOptions)
	secret.DebugRedact = new(true)
	field := func(name string, n int32, typ descriptorpb.FieldDescriptorProto_Type, o *descriptorpb.FieldOptions) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: &name, Number: &n, Type: &typ, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Options: o,
		}
	}
	nested := field("nested", 5, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, nil)
	nested.Label, nested.TypeName = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(), new(".signalbox.rpctest.v1.Ping")
	bad := &descriptorpb.ServiceDescriptorProto{Name: new("BadService")}
	for name, a := range badMethods() {
		bad.Method = append(bad.Method, method(name, a, false, once))
	}
	return &descriptorpb.FileDescriptorProto{
		Name: new("signalbox/rpctest/v1/test.proto"), Package: new("signalbox.rpctest.v1"), Syntax: new("proto3"),
		Dependency: []string{"buf/validate/validate.proto", "signalbox/options/v1/options.proto"},
		MessageType: []*descriptorpb.DescriptorProto{{
			Name: new("Ping"),
			Field: []*descriptorpb.FieldDescriptorProto{
				field("text", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING, text),
				field("size", 2, descriptorpb.FieldDescriptorProto_TYPE_INT32, size),
				field("pin", 3, descriptorpb.FieldDescriptorProto_TYPE_INT32, secret),
				field("payload", 4, descriptorpb.FieldDescriptorProto_TYPE_BYTES, nil),
				nested,
			},
		}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("TestService"), Method: methods()}, bad},
	}
}

func pingType() protoreflect.MessageDescriptor {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName("signalbox.rpctest.v1.Ping")
	if err != nil {
		panic(err)
	}
	return d.(protoreflect.MessageDescriptor)
}

func ping() *dynamicpb.Message { return dynamicpb.NewMessage(pingType()) }

func pingText(text string) *dynamicpb.Message {
	m := ping()
	m.Set(pingType().Fields().ByName("text"), protoreflect.ValueOfString(text))
	return m
}

func pingSize(field string, n int32) *dynamicpb.Message {
	m := ping()
	m.Set(pingType().Fields().ByName(protoreflect.Name(field)), protoreflect.ValueOfInt32(n))
	return m
}

func textOf(m *dynamicpb.Message) string {
	return m.Get(pingType().Fields().ByName("text")).String()
}

// handlers implement all methods of the test service.
type handlers struct {
	unary  func(ctx context.Context, method string, in *dynamicpb.Message) (*dynamicpb.Message, error)
	stream func(method string, s grpc.ServerStream) error
}

// desc returns the service description that generated code would contain. If names are given, it contains only these
// unary methods.
func (h *handlers) desc(service string, names ...string) *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil)}
	for _, m := range methods() {
		if m.GetServerStreaming() {
			d.Streams = append(d.Streams, grpc.StreamDesc{
				StreamName: m.GetName(), ServerStreams: true, ClientStreams: true,
				Handler: func(_ any, s grpc.ServerStream) error { return h.stream(m.GetName(), s) },
			})
			continue
		}
		d.Methods = append(d.Methods, h.unaryDesc(service, m.GetName()))
	}
	if len(names) > 0 {
		d.Methods, d.Streams = nil, nil
		for _, name := range names {
			d.Methods = append(d.Methods, h.unaryDesc(service, name))
		}
	}
	return d
}

func (h *handlers) unaryDesc(service, name string) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, dec func(any) error, i grpc.UnaryServerInterceptor) (any, error) {
		in := ping()
		if err := dec(in); err != nil {
			return nil, err
		}
		if i == nil {
			return h.unary(ctx, name, in)
		}
		info := &grpc.UnaryServerInfo{Server: srv, FullMethod: "/" + service + "/" + name}
		return i(ctx, in, info, func(ctx context.Context, req any) (any, error) {
			return h.unary(ctx, name, req.(*dynamicpb.Message))
		})
	}}
}

func invoke(ctx context.Context, cc grpc.ClientConnInterface, name string, in *dynamicpb.Message) (*dynamicpb.Message, error) {
	out := ping()
	err := cc.Invoke(ctx, "/"+testService+"/"+name, in, out)
	return out, err
}

func openStream(ctx context.Context, cc grpc.ClientConnInterface, name string) (grpc.ClientStream, error) {
	return cc.NewStream(ctx, &grpc.StreamDesc{StreamName: name, ServerStreams: true, ClientStreams: true}, "/"+testService+"/"+name)
}
