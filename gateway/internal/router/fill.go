package router

import (
	"net/http"
	"strconv"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// HeaderResume is the header in which a client of a stream sends the id of the last event that it received.
const HeaderResume = "Last-Event-ID"

// Fill sets the fields of a stream's request message from path, query and Last-Event-ID, as the generated
// handlers do for plain calls. The header, which a reconnecting client sends, overrides `after`.
func (s *Params) Fill(in proto.Message, m *Match, r *http.Request) *fault.Error {
	query, f := s.Query(r.URL.RawQuery)
	if f == nil {
		f = s.Vars(m.Values)
	}
	if f != nil {
		return f
	}
	if last := r.Header.Get(HeaderResume); last != "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n < 0 {
			return fault.InvalidFields(fault.At(fault.TypeIntParsing, "Input should be a valid integer", "header", "last-event-id"))
		}
		query.Set("after", strconv.FormatInt(n, 10)) // leading zeros would be read as octal
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
