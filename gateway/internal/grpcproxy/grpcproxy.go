// Package grpcproxy serves gRPC clients on the public listener. They may call only the methods that the route
// table offers over REST, with the same bearer token. Messages are forwarded as bytes; the services check them.
//
// A method that is not in the table does not exist for a client, even if a service implements it.
// A service gets the same metadata as for a REST request, except the refresh cookie, and nothing else. A client gets
// the service's messages and the fault of the call, but not the service's metadata.
//
// Search is the connection of a method that several services implement: it calls all of them and merges their responses.
package grpcproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/signalbox-dev/signalbox/gateway/internal/middleware"
	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

const maxMessage = 4 << 20

// Gate is the part of the gateway that admits and connects each call.
type Gate interface {
	// Admit gives the request an id and returns the context for its calls, or the error that refuses the request. If
	// the error is nil, the function over must be called when the call ends.
	Admit(ctx context.Context, rt route.Route, header http.Header, peer string) (_ context.Context, over func(), _ error)
	// Limit returns how long a call that is not a stream may take.
	Limit(rt route.Route) time.Duration
	// Conn returns the connection to a service.
	Conn(service string) grpc.ClientConnInterface
}

// Server relays gRPC calls. It serves HTTP/2 requests of an http.Server.
type Server struct {
	grpc  *grpc.Server
	table map[string]route.Route
	gate  Gate
	clk   clock.Clock
	log   *slog.Logger
}

// New returns a server for the calls in the route table.
func New(table []route.Route, gate Gate, clk clock.Clock, log *slog.Logger) *Server {
	s := &Server{table: make(map[string]route.Route), gate: gate, clk: clk, log: log}
	for _, rt := range table {
		if rt.Kind != route.Raw {
			s.table["/"+rt.RPC] = rt
		}
	}
	s.grpc = grpc.NewServer(grpc.ForceServerCodecV2(codec{}), grpc.UnknownServiceHandler(s.relay), grpc.MaxRecvMsgSize(maxMessage))
	return s
}

// Wants reports whether r is a gRPC call.
func Wants(r *http.Request) bool {
	const typ = "application/grpc"
	given := r.Header.Get("Content-Type")
	return r.ProtoMajor == 2 && (given == typ || strings.HasPrefix(given, typ+"+") || strings.HasPrefix(given, typ+";"))
}

type requestKey struct{}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.grpc.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, r)))
}

// relay handles every method of every service.
func (s *Server) relay(_ any, down grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(down)
	rt, ok := s.table[method]
	r, known := down.Context().Value(requestKey{}).(*http.Request)
	if !ok || !known {
		return fault.New(fault.Unconfigured, "unknown_method", "no such method")
	}
	started := s.clk.Now()
	ctx, over, err := s.gate.Admit(down.Context(), rt, r.Header, r.RemoteAddr)
	if err == nil {
		err = s.pass(ctx, rt, r.Header, down)
		if cut, ok := errors.AsType[*fault.Error](context.Cause(ctx)); ok && err != nil {
			err = cut // report why the gate ended the call, not the cancellation
		}
		over()
	}
	code := "ok"
	if err != nil {
		code = string(fault.From(err).Kind)
	}
	s.log.InfoContext(ctx, "request", slog.String("method", "gRPC"), slog.String("route", method), slog.String("code", code),
		slog.Float64("duration_ms", float64(clock.Since(s.clk, started).Microseconds())/1000))
	return err
}

// pass sends the one request message to the service and all response messages to the client.
func (s *Server) pass(ctx context.Context, rt route.Route, header http.Header, down grpc.ServerStream) error {
	md, f := middleware.Metadata(header)
	if f != nil {
		return f
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if rt.Kind == route.RPC {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, s.gate.Limit(rt))
		defer end()
	}
	var msg frame
	if err := down.RecvMsg(&msg); err != nil {
		return receiveFault(err)
	}
	request := msg.kept()
	defer request.free()
	up, err := s.gate.Conn(rt.Service).NewStream(metadata.NewOutgoingContext(ctx, md), &grpc.StreamDesc{ServerStreams: true},
		"/"+rt.RPC, grpc.ForceCodecV2(codec{}))
	if err != nil {
		msg.free()
		return err
	}
	if err := up.SendMsg(&msg); err != nil && !errors.Is(err, io.EOF) { // after io.EOF, RecvMsg returns the reason
		return fmt.Errorf("forward the request of %s: %w", rt.RPC, err)
	}
	if err := up.CloseSend(); err != nil {
		return fmt.Errorf("forward the request of %s: %w", rt.RPC, err)
	}
	return markMissing(rt.RPC, request, copyResponses(up, down))
}

func copyResponses(up grpc.ClientStream, down grpc.ServerStream) error {
	for {
		var msg frame
		err := up.RecvMsg(&msg)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := down.SendMsg(&msg); err != nil {
			return fmt.Errorf("forward the response: %w", err)
		}
	}
}

func receiveFault(err error) error {
	if errors.Is(err, io.EOF) {
		return fault.New(fault.Refused, "body_cut", "the call ended without a request message")
	}
	return err
}
