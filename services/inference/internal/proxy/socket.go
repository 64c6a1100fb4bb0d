package proxy

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // RFC 6455 requires SHA-1; nothing relies on it for security.
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
	"github.com/signalbox-dev/signalbox/services/inference/internal/socket"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

// Sockets contains the limits of WebSockets.
type Sockets struct {
	// Idle is how long a WebSocket stays open while neither side sends anything.
	Idle time.Duration
	// MaxMessage is the maximum size of a message, in bytes.
	MaxMessage int64
}

// upgrades reports whether a request is for an upgrade to WebSocket, the only upgrade that is relayed. A request for an
// upgrade to other protocols only is relayed without it, as RFC 9110 allows.
func upgrades(h httprelay.Header) bool {
	for _, list := range h.Values("Upgrade") {
		for protocol := range strings.SplitSeq(list, ",") {
			name, _, _ := strings.Cut(protocol, "/")
			if strings.EqualFold(strings.TrimSpace(name), websocket) {
				return true
			}
		}
	}
	return false
}

const websocket = "websocket"

// handshake returns an error unless the request is a valid WebSocket handshake.
func handshake(r *request) *fault.Error {
	key, err := base64.StdEncoding.DecodeString(r.header.Get("Sec-Websocket-Key"))
	switch {
	case r.method != http.MethodGet || !r.http11 || r.length != 0,
		len(r.header.Values("Upgrade")) != 1 || !strings.EqualFold(r.header.Get("Upgrade"), websocket) || !connectionHas(r.header, "upgrade"),
		len(r.header.Values("Sec-Websocket-Key")) != 1 || err != nil || len(key) != 16:
		return fault.New(fault.Refused, "bad_upgrade", "the request is not a valid WebSocket handshake")
	case r.header.Get("Sec-Websocket-Version") != "13":
		return fault.New(fault.Refused, "bad_upgrade", "only version 13 of the WebSocket protocol is supported")
	}
	return nil
}

func connectionHas(h httprelay.Header, name string) bool {
	return slices.Contains(h.List("Connection"), name)
}

// addSocket adds the caller's handshake headers to those of the request to the engine, without values that contain a
// credential of this product. Clients of OpenAI repeat their key in a subprotocol.
func addSocket(out *httprelay.Header, in httprelay.Header) {
	out.Set("Connection", "Upgrade")
	out.Set("Upgrade", websocket)
	for _, name := range []string{"Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Extensions"} {
		for _, value := range withoutCredentials(in.Values(name)) {
			out.Add(name, value)
		}
	}
	var offered []string
	for _, list := range in.Values("Sec-Websocket-Protocol") {
		offered = append(offered, strings.Split(list, ",")...)
	}
	if offered = withoutCredentials(offered); len(offered) > 0 {
		out.Set("Sec-Websocket-Protocol", strings.TrimSpace(strings.Join(offered, ",")))
	}
}

// errHandshake means that an engine responded with 101, but not with a valid WebSocket handshake.
var errHandshake = errors.New("the engine's response is not a valid WebSocket handshake")

// accepted reports whether the engine's response accepts the handshake with this key.
func accepted(h httprelay.Header, key string) bool {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // RFC 6455 prescribes SHA-1
	return strings.EqualFold(h.Get("Upgrade"), websocket) && connectionHas(h, "upgrade") &&
		h.Get("Sec-Websocket-Accept") == base64.StdEncoding.EncodeToString(sum[:])
}

// socket relays a WebSocket handshake. If the engine does not switch protocols, its response is relayed like any
// other.
func (p *Proxy) socket(ctx context.Context, w http.ResponseWriter, a *admitted) {
	own := newCaller(ctx, w, p.Idle)
	e := p.exchange(ctx, own, a)
	defer e.flight.End()
	e.rec.Stream = true
	e.in = engineclient.Request{Method: a.method, Target: a.line, Upgrade: true, Informational: e.informational}
	if answer, err := e.dial(ctx); err != nil {
		e.fail(ctx, err)
	} else {
		e.handshake(ctx, w, own, answer)
	}
	e.abort()
}

// handshake handles the engine's response to a handshake.
func (e *exchange) handshake(ctx context.Context, w http.ResponseWriter, own *caller, answer *engineclient.Response) {
	defer e.busy.leave(e.rec.ReplicaID)
	switch {
	case answer.Status != http.StatusSwitchingProtocols:
		e.respond(ctx, answer)
	case !accepted(answer.Header, e.a.header.Get("Sec-Websocket-Key")):
		_ = answer.Close() // its error does not matter: the call fails anyway
		e.fail(ctx, errHandshake)
	default:
		e.upgrade(ctx, w, own, answer)
	}
}

// upgrade switches the caller's connection and relays frames until the session ends.
func (e *exchange) upgrade(ctx context.Context, w http.ResponseWriter, caller *caller, answer *engineclient.Response) {
	conn, in, ok := answer.Take()
	if !ok {
		e.fail(ctx, context.Cause(ctx))
		return
	}
	engine := socket.Side{Conn: conn, In: in}
	own, pending, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = conn.Close() // its error does not matter: the call fails anyway
		e.fail(ctx, err)
		return
	}
	_ = own.SetDeadline(caller.soon()) // an error does not matter: the write below would fail, too
	if _, err := own.Write(switching(answer.Header, e.redirect(), e.a.requestID)); err != nil {
		_, _ = conn.Close(), own.Close() // their errors do not matter
		e.rec.Status, e.rec.Outcome = statusClosed, traffic.ClientClosed
		e.record(ctx)
		return
	}
	_ = own.SetDeadline(time.Time{})
	first := e.elapsed()
	e.rec.Status, e.rec.TTFT = http.StatusSwitchingProtocols, &first
	session := &socket.Session{
		Caller: socket.Side{Conn: own, In: pending.Reader}, Engine: engine, Clock: e.Clock, Draining: e.stopping(),
		HasExtensions: answer.Header.Has("Sec-Websocket-Extensions"),
		Idle:          e.Sockets.Idle, MaxMessage: e.Sockets.MaxMessage, CloseReason: lastWord,
	}
	e.ended(ctx, session.Run(ctx))
}

// switching returns the 101 response to the caller.
func switching(in httprelay.Header, to redirect, requestID string) []byte {
	head := passFromEngine(in, in, to)
	head.Del("Content-Length") // a 101 response has no body
	head.Set("Connection", "Upgrade")
	head.Set("Upgrade", websocket)
	head.Set(fault.HeaderRequestID, requestID)
	return append(httprelay.AppendFields(httprelay.AppendStatus(nil, http.StatusSwitchingProtocols), head), "\r\n"...)
}

// lastWord returns the code and reason of the close frame that both sides get when the call is cut.
func lastWord(cause error) (code uint16, why string) {
	switch cutOutcome(cause) {
	case traffic.SessionOver:
		return 1001, fault.From(cause).Text()
	case traffic.Revoked:
		return 1008, "the deployment token was revoked"
	case traffic.Suspended:
		return 1013, "the deployment is suspended"
	case traffic.LeaseOver:
		return 1013, "this replica has lost contact with the registry"
	}
	return 1001, "the server is stopping"
}

// ended records the call of a WebSocket session that has ended.
func (e *exchange) ended(ctx context.Context, r socket.Result) {
	e.rec.RequestBytes, e.rec.ResponseBytes = r.FromCaller.Bytes, r.FromEngine.Bytes
	e.rec.RequestFrames, e.rec.ResponseFrames = &r.FromCaller.Frames, &r.FromEngine.Frames
	e.rec.Outcome = outcomeOf(r.End, context.Cause(ctx))
	e.record(ctx)
}

func outcomeOf(end socket.End, cause error) string {
	switch end {
	case socket.Closed:
		return traffic.OK
	case socket.CallerGone:
		return traffic.ClientClosed
	case socket.EngineGone:
		return traffic.Truncated
	case socket.CallerFault:
		return traffic.ClientError
	case socket.EngineFault:
		return traffic.EngineError
	case socket.Idle:
		return traffic.IdleOver
	case socket.Drained:
		return traffic.Draining
	case socket.Cut:
	}
	return cmp.Or(cutOutcome(cause), traffic.Draining)
}
