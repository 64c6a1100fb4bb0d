package rpc

import (
	"errors"
	"math"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Validate checks a message against its protovalidate rules. It returns nil or a fault of kind invalid with one
// field per violated rule. The gateway and HTTP handlers may use it for messages that they decode themselves.
func Validate(m proto.Message) error {
	err := protovalidate.Validate(m)
	var broken *protovalidate.ValidationError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &broken):
		// The rules do not compile or run. This is a bug, not an error of the caller.
		name := m.ProtoReflect().Descriptor().FullName()
		return fault.New(fault.Internal, "", "the validation rules of %s are invalid", name).Wrap(err)
	}
	fields := make([]fault.Field, len(broken.Violations))
	for i, v := range broken.Violations {
		fields[i] = fault.FromViolation(v.Proto, plain(v.RuleValue), input(v))
	}
	return fault.InvalidFields(fields...)
}

// input returns the value if the response may include it: numbers, booleans and enum numbers. Text is left out,
// because it may be a secret or personal data and the client knows it anyway.
func input(v *protovalidate.Violation) any {
	if v.FieldDescriptor == nil || redacted(v.FieldDescriptor) || v.FieldDescriptor.IsList() || v.FieldDescriptor.IsMap() {
		return nil
	}
	switch v.FieldDescriptor.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind, protoreflect.GroupKind:
		return nil
	default:
		return plain(v.FieldValue)
	}
}

func redacted(f protoreflect.FieldDescriptor) bool {
	options, ok := f.Options().(*descriptorpb.FieldOptions)
	return ok && options.GetDebugRedact()
}

// plain returns a scalar or a list of strings as a Go value for JSON, and nil for any other value.
func plain(v protoreflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	switch x := v.Interface().(type) {
	case bool, int32, int64, uint32, uint64, string:
		return x
	case protoreflect.List:
		return words(x)
	case protoreflect.EnumNumber:
		return int32(x)
	case float32:
		return finite(float64(x), x)
	case float64:
		return finite(x, x)
	default:
		return nil
	}
}

// words returns the elements of a list of strings, and nil for other lists.
func words(list protoreflect.List) any {
	out := make([]string, list.Len())
	for i := range out {
		word, ok := list.Get(i).Interface().(string)
		if !ok {
			return nil
		}
		out[i] = word
	}
	return out
}

func finite(f float64, as any) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return as
}
