package grpcproxy

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
)

func TestWants(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		major int
		typ   string
		want  bool
	}{
		"gRPC":               {2, "application/grpc", true},
		"with its codec":     {2, "application/grpc+proto", true},
		"with a parameter":   {2, "application/grpc;x=y", true},
		"gRPC-Web":           {2, "application/grpc-web+proto", false},
		"JSON":               {2, "application/json", false},
		"nothing":            {2, "", false},
		"gRPC over HTTP/1.1": {1, "application/grpc", false},
	}
	for name, tc := range cases {
		require.Equal(t, tc.want, Wants(&http.Request{ProtoMajor: tc.major, Header: http.Header{"Content-Type": {tc.typ}}}), name)
	}
}

func TestCodecPassesBytes(t *testing.T) {
	t.Parallel()
	var f frame
	sent := mem.BufferSlice{mem.SliceBuffer("not even protobuf")}
	require.NoError(t, codec{}.Unmarshal(sent, &f))
	got, err := codec{}.Marshal(&f)
	require.NoError(t, err)
	require.Equal(t, "not even protobuf", string(got.Materialize()))
	f.free()

	_, err = codec{}.Marshal("x")
	require.Error(t, err)
	require.Error(t, codec{}.Unmarshal(sent, "x"))
	require.Equal(t, "proto", codec{}.Name())
}
