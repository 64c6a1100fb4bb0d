package leak

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// collector is an OTLP collector that receives the spans of an installation.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer

	URL string

	mu    sync.Mutex
	spans int
	text  []byte // all received spans, as protobuf and as text
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &collector{URL: "http://" + l.Addr().String()}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); require.NoError(t, <-done) })
	return c
}

// Export implements TraceServiceServer.
func (c *collector) Export(_ context.Context, in *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	raw, err := proto.Marshal(in)
	if err != nil {
		return nil, err
	}
	text, err := prototext.Marshal(in)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range in.GetResourceSpans() {
		for _, s := range r.GetScopeSpans() {
			c.spans += len(s.GetSpans())
		}
	}
	c.text = append(append(append(c.text, raw...), text...), '\n')
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// received returns all spans received so far, and their number.
func (c *collector) received() ([]byte, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text, c.spans
}
