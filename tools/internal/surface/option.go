package surface

import (
	"fmt"
	"net/http"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

const (
	failsName    = protoreflect.FullName("signalbox.options.v1.fails")
	succeedsName = protoreflect.FullName("signalbox.options.v1.succeeds")
)

// Option reads an option of a method or a field. It uses the option's definition in the image. It returns false if d
// does not set the option or the image does not define it.
func (s *schema) Option(d protoreflect.Descriptor, name protoreflect.FullName) (protoreflect.Value, bool, error) {
	extension, err := s.types.FindExtensionByName(name)
	if err != nil {
		return protoreflect.Value{}, false, nil //nolint:nilerr // the image does not define the option, so nothing sets it
	}
	raw, err := proto.Marshal(d.Options())
	if err != nil {
		return protoreflect.Value{}, false, fmt.Errorf("%s: read options: %w", d.FullName(), err)
	}
	var opts proto.Message
	switch d.(type) {
	case protoreflect.MethodDescriptor:
		opts = &descriptorpb.MethodOptions{}
	case protoreflect.FieldDescriptor:
		opts = &descriptorpb.FieldOptions{}
	default:
		return protoreflect.Value{}, false, fmt.Errorf("%s: neither a method nor a field", d.FullName())
	}
	if err := (proto.UnmarshalOptions{Resolver: s.types}).Unmarshal(raw, opts); err != nil {
		return protoreflect.Value{}, false, fmt.Errorf("%s: read options: %w", d.FullName(), err)
	}
	// proto.HasExtension would not work: it requires the generated MethodOptions type, but the image has its own
	// descriptor of that message.
	option := extension.TypeDescriptor()
	if !opts.ProtoReflect().Has(option) {
		return protoreflect.Value{}, false, nil
	}
	return opts.ProtoReflect().Get(option), true, nil
}

// statusesOf reads the failure and success statuses of md's options.
func (s *schema) statusesOf(md protoreflect.MethodDescriptor) (fails, succeeds []int, err error) {
	if fails, err = s.statuses(md, failsName, http.StatusBadRequest, 599); err != nil {
		return nil, nil, err
	}
	succeeds, err = s.statuses(md, succeedsName, http.StatusOK, 299)
	return fails, succeeds, err
}

func (s *schema) statuses(md protoreflect.MethodDescriptor, name protoreflect.FullName, low, high int) ([]int, error) {
	option, ok, err := s.Option(md, name)
	if err != nil || !ok {
		return nil, err
	}
	m := option.Message()
	list := m.Get(m.Descriptor().Fields().ByName("status")).List()
	var out []int
	for i := range list.Len() {
		n := int(list.Get(i).Int())
		if n < low || n > high || n == http.StatusInternalServerError || http.StatusText(n) == "" || slices.Contains(out, n) {
			return nil, fmt.Errorf("%s: option %s: status %d is not allowed or repeated", md.FullName(), name, n)
		}
		out = append(out, n)
	}
	slices.Sort(out)
	return out, nil
}
