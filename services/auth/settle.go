package auth

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// settled is a registrar whose methods return only when their changes are in force at every gateway. It applies to all
// unary methods that may change something, so that a logout, a demotion and a disabled account hold once they are
// acknowledged, and a new method cannot forget to wait.
type settled struct {
	grpc.ServiceRegistrar

	settle func(context.Context) error
}

// RegisterService implements grpc.ServiceRegistrar.
func (s settled) RegisterService(desc *grpc.ServiceDesc, impl any) {
	waiting := *desc
	waiting.Methods = slices.Clone(desc.Methods)
	for i, m := range waiting.Methods {
		if !readOnly(desc.ServiceName, m.MethodName) {
			waiting.Methods[i].Handler = s.handler(m.Handler)
		}
	}
	s.ServiceRegistrar.RegisterService(&waiting, impl)
}

// handler waits inside the server's interceptor, which sets the deadline of the call and converts its error.
func (s settled) handler(handle grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		return handle(srv, ctx, decode, func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return intercept(ctx, req, info, func(ctx context.Context, req any) (any, error) {
				out, err := next(ctx, req)
				if err != nil {
					return nil, err
				}
				return out, s.settle(ctx)
			})
		})
	}
}

// readOnly reports whether the proto declares that the method changes nothing.
func readOnly(service, method string) bool {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service).Append(protoreflect.Name(method)))
	if err != nil {
		return false
	}
	options, ok := found.Options().(*descriptorpb.MethodOptions)
	return ok && options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}
