package router

import (
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Fill puts path, query and Last-Event-ID into the request message of a stream, as the generated
// handlers do for plain calls. The header, which a reconnecting client sends, overrides `after`.
func (s *Params) Fill(in proto.Message, m *Match, r *http.Request) *fault.Error {
	query, f := s.Query(r.URL.RawQuery)
	if f == nil {
		f = s.Vars(m.Values)
	}
	if f != nil {
		return f
	}
	if f := resume(query, r.Header); f != nil {
		return f
	}
	if err := runtime.PopulateQueryParameters(in, query, utilities.NewDoubleArray(nil)); err != nil {
		return fault.New(fault.Internal, "", "read the query parameters of %s", s.Method.FullName()).Wrap(err)
	}
	for i, name := range m.Vars {
		if err := runtime.PopulateFieldFromPath(in, name, m.Values[i]); err != nil {
			return fault.New(fault.Internal, "", "read the path variables of %s", s.Method.FullName()).Wrap(err)
		}
	}
	return nil
}
