package proxy

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // RFC 6455 requires SHA-1; nothing relies on it for security.
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
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
func upgrades(r *http.Request) bool {
	for _, list := range r.Header["Upgrade"] {
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
func handshake(r *http.Request) *fault.Error {
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-Websocket-Key"))
	switch {
	case r.Method != http.MethodGet || r.ProtoMajor != 1 || r.ProtoMinor < 1 || r.ContentLength != 0,
		len(r.Header.Values("Upgrade")) != 1 || !strings.EqualFold(r.Header.Get("Upgrade"), websocket) || !connectionHas(r.Header, "upgrade"),
		len(r.Header.Values("Sec-Websocket-Key")) != 1 || err != nil || len(key) != 16:
		return fault.New(fault.Refused, "bad_upgrade", "the request is not a valid WebSocket handshake")
	case r.Header.Get("Sec-Websocket-Version") != "13":
		return fault.New(fault.Refused, "bad_upgrade", "only version 13 of the WebSocket protocol is supported")
	}
	return nil
}

func connectionHas(h http.Header, name string) bool {
	for token := range strings.SplitSeq(strings.Join(h.Values("Connection"), ","), ",") {
		if strings.EqualFold(strings.TrimSpace(token), name) {
			return true
		}
	}
	return false
}

// socketHeader adds the caller's handshake headers to those of the request to the engine, without values that contain a
// credential of this product. Clients of OpenAI repeat their key in a subprotocol.
func socketHeader(out, in http.Header) {
	out.Set("Connection", "Upgrade")
	out.Set("Upgrade", websocket)
	for _, name := range []string{"Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Extensions"} {
		if values := withoutCredentials(in[name]); len(values) > 0 {
			out[name] = values
		}
	}
	var offered []string
	for _, list := range in["Sec-Websocket-Protocol"] {
		offered = append(offered, strings.Split(list, ",")...)
	}
	if offered = withoutCredentials(offered); len(offered) > 0 {
		out["Sec-Websocket-Protocol"] = []string{strings.TrimSpace(strings.Join(offered, ","))}
	}
}

// errHandshake means that an engine responded with 101, but not with a valid WebSocket handshake.
var errHandshake = errors.New("the engine's response is not a valid WebSocket handshake")

// accepted reports whether the engine's response accepts the handshake with this key.
func accepted(resp *http.Response, key string) bool {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // RFC 6455 prescribes SHA-1
	return strings.EqualFold(resp.Header.Get("Upgrade"), websocket) && connectionHas(resp.Header, "upgrade") &&
		resp.Header.Get("Sec-Websocket-Accept") == base64.StdEncoding.EncodeToString(sum[:])
}

// socket relays a WebSocket handshake. If the engine does not switch protocols, its response is relayed like any
// other.
func (p *Proxy) socket(ctx context.Context, w http.ResponseWriter, r *http.Request, a *admitted) {
	e := p.exchange(ctx, w, r, a)
	defer e.flight.End()
	e.rec.Stream = true
	e.in = engineclient.Request{Method: r.Method, Target: a.target, Upgrade: true, Informational: e.informational}
	answer, err := e.dial(ctx, r)
	if err != nil {
		e.fail(ctx, w, err)
		return
	}
	defer p.busy.leave(e.rec.ReplicaID)
	if answer.HTTP.StatusCode != http.StatusSwitchingProtocols {
		e.respond(ctx, answer)
		return
	}
	if !accepted(answer.HTTP, r.Header.Get("Sec-Websocket-Key")) {
		_ = answer.Close() // its error does not matter: the call fails anyway
		e.fail(ctx, w, errHandshake)
		return
	}
	e.upgrade(ctx, w, answer)
}

// upgrade switches the caller's connection and relays frames until the session ends.
func (e *exchange) upgrade(ctx context.Context, w http.ResponseWriter, answer *engineclient.Response) {
	conn, in, ok := answer.Take()
	if !ok {
		e.fail(ctx, w, context.Cause(ctx))
		return
	}
	engine := socket.Side{Conn: conn, In: in}
	own, pending, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = conn.Close() // its error does not matter: the call fails anyway
		e.fail(ctx, w, err)
		return
	}
	_ = own.SetDeadline(e.caller.soon()) // an error does not matter: the write below would fail, too
	if err := switching(pending.Writer, answer.HTTP, e.redirect(), e.a.requestID); err != nil {
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
		HasExtensions: len(answer.HTTP.Header.Values("Sec-Websocket-Extensions")) > 0,
		Idle:          e.Sockets.Idle, MaxMessage: e.Sockets.MaxMessage, CloseReason: lastWord,
	}
	e.ended(ctx, session.Run(ctx))
}

// switching writes the 101 response to the caller.
func switching(out *bufio.Writer, resp *http.Response, to redirect, requestID string) error {
	head := http.Header{}
	passFromEngine(head, resp.Header, resp.Header, to)
	head.Del("Content-Length") // a 101 response has no body
	head.Set("Connection", "Upgrade")
	head.Set("Upgrade", websocket)
	head.Set(fault.HeaderRequestID, requestID)
	_, err := out.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	return errors.Join(err, head.Write(out), crlf(out), out.Flush())
}

func crlf(out *bufio.Writer) error {
	_, err := out.WriteString("\r\n")
	return err
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
