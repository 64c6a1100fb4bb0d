package router

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/gateway/internal/scalar"
)

// Of returns parameters whose query accepts every field of a message except objects and bytes.
func Of(md protoreflect.MessageDescriptor) *Params {
	s := &Params{query: make(map[string]*parameter)}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if fd.IsMap() || fd.Kind() == protoreflect.BytesKind || fd.Message() != nil && fd.Message().Name() != "Timestamp" {
			continue
		}
		p := &parameter{desc: fd}
		if fd.Enum() != nil {
			p.enum = scalar.NewEnum(fd.Enum())
		}
		s.query[string(fd.Name())] = p
	}
	return s
}
