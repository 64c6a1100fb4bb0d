package surface

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// checkShapes rejects request and response types that the API's JSON cannot express, and requests with a field named
// header.
func checkShapes(md protoreflect.MethodDescriptor) error {
	if md.Input().Fields().ByName("header") != nil {
		return fmt.Errorf("%s: a field must not be named `header`, because errors in headers have the location `header`", md.FullName())
	}
	seen := make(map[protoreflect.FullName]bool)
	for _, m := range []protoreflect.MessageDescriptor{md.Input(), md.Output()} {
		if err := checkMessage(m, seen); err != nil {
			return fmt.Errorf("%s: %w", md.FullName(), err)
		}
	}
	return nil
}

func checkMessage(m protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) error {
	name := m.FullName()
	if seen[name] || name == "google.protobuf.Timestamp" || name == "google.protobuf.Empty" {
		return nil
	}
	seen[name] = true
	if !strings.HasPrefix(string(name), product) {
		return fmt.Errorf("message type %s is not in a signalbox package, so the API has no JSON form for it", name)
	}
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		switch {
		case fd.Kind() == protoreflect.GroupKind:
			return fmt.Errorf("field %s is a group, which the API's JSON does not support", fd.FullName())
		case fd.Kind() == protoreflect.EnumKind:
			if zero := fd.Enum().Values().Get(0); zero.Number() != 0 || !strings.HasSuffix(string(zero.Name()), "_UNSPECIFIED") {
				return fmt.Errorf("enum %s: its first value must be …_UNSPECIFIED = 0", fd.Enum().FullName())
			}
		case fd.IsMap() && fd.MapValue().Message() != nil:
			if err := checkMessage(fd.MapValue().Message(), seen); err != nil {
				return err
			}
		case !fd.IsMap() && fd.Message() != nil:
			if err := checkMessage(fd.Message(), seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkVars rejects path variables that are not plain strings or integers of the request.
func checkVars(input protoreflect.MessageDescriptor, vars []string) error {
	for _, name := range vars {
		fd := input.Fields().ByName(protoreflect.Name(name))
		if fd == nil {
			return fmt.Errorf("path variable {%s} is not a field of %s", name, input.FullName())
		}
		plain := fd.Kind() == protoreflect.StringKind || integer(fd.Kind())
		if !plain || fd.HasPresence() || fd.IsList() || fd.IsMap() {
			return fmt.Errorf("path variable {%s} must be a plain string or integer", name)
		}
	}
	return nil
}

func integer(k protoreflect.Kind) bool {
	return slices.Contains([]protoreflect.Kind{
		protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Uint32Kind, protoreflect.Uint64Kind,
	}, k)
}

// checkBody rejects bodies other than the complete message, one of its message fields or one of its bytes fields.
func checkBody(md protoreflect.MethodDescriptor, body, responseBody string) error {
	if body != "" && body != "*" {
		fd := md.Input().Fields().ByName(protoreflect.Name(body))
		if fd == nil || fd.IsList() || fd.IsMap() || fd.Message() == nil && fd.Kind() != protoreflect.BytesKind {
			return fmt.Errorf("body %q is not a message or bytes field of %s", body, md.Input().FullName())
		}
	}
	if responseBody != "" && md.Output().Fields().ByName(protoreflect.Name(responseBody)) == nil {
		return fmt.Errorf("response_body %q is not a field of %s", responseBody, md.Output().FullName())
	}
	return nil
}

// checkQuery rejects fields that neither the path nor the body contains and that a query cannot express: objects and
// bytes.
func checkQuery(input protoreflect.MessageDescriptor, vars []string, body string) error {
	if body == "*" {
		return nil
	}
	for i := range input.Fields().Len() {
		fd := input.Fields().Get(i)
		if string(fd.Name()) == body || slices.Contains(vars, string(fd.Name())) {
			continue
		}
		object := fd.Message() != nil && fd.Message().FullName() != "google.protobuf.Timestamp"
		if object || fd.Kind() == protoreflect.BytesKind {
			return fmt.Errorf("field %s is in neither the path nor the body and cannot be in the query", fd.FullName())
		}
	}
	return nil
}
