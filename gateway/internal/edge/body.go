package edge

import (
	"io"
	"net/http"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/signalbox-dev/signalbox/gateway/internal/match"
	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// MaxBody is the largest body of a REST request. Bytes travel by signed URLs and by the raw routes.
const MaxBody = 4 << 20

// Body prepares the body of a request for its route. On a route that takes none, an empty object is
// all that may come.
func Body(w http.ResponseWriter, r *http.Request, m *match.Match, codec *restjson.Codec) (*restjson.Body, *fault.Error) {
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

// maxLinger is how much of a refused body is read for the client's sake.
const maxLinger = 4 * MaxBody

// Linger reads what is left of a body, within limits: a client that still sends when the connection
// closes gets a reset instead of its answer. One that waits for leave to send gets none.
func Linger(r *http.Request) {
	if r.Body != nil && r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, maxLinger) // whatever ends it, the answer is made
	}
}
