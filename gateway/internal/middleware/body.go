package middleware

import (
	"net/http"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/gateway/internal/router"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// MaxBody is the largest body of a REST request, in bytes. Larger data uses signed URLs and the raw routes.
const MaxBody = 4 << 20

// Body prepares the body of a request for its route. For a route without a body it returns nil, and accepts only an
// empty object or nothing.
func Body(w http.ResponseWriter, r *http.Request, m *router.Match, codec *restjson.Codec) (*restjson.Body, *fault.Error) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		if m.Route.Body == "" {
			return nil, nil
		}
		return restjson.NewBody(http.NoBody, m.Vars...), nil
	}
	if f := request.PlainJSON(r.Header); f != nil {
		return nil, f
	}
	if r.ContentLength > MaxBody {
		return nil, tooLargeFault(MaxBody)
	}
	body := restjson.NewBody(http.MaxBytesReader(w, r.Body, MaxBody), m.Vars...)
	if m.Route.Body != "" {
		return body, nil
	}
	_ = codec.NewDecoder(body).Decode(&emptypb.Empty{})
	if err := body.Err(); err != nil {
		return nil, bodyFault(err)
	}
	return nil, nil
}
