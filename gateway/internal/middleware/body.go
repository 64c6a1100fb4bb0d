package middleware

import (
	"io"
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

// maxLinger is the maximum number of bytes of a refused body that Linger reads.
const maxLinger = 4 * MaxBody

// Linger reads and discards the rest of a body, up to maxLinger. If the server closed the connection
// while the client still sends, the client would get a reset instead of its response. A body that waits for
// 100 Continue is not read.
func Linger(r *http.Request) {
	if r.Body != nil && r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, maxLinger) // an error no longer matters: the response is written
	}
}
