package rpc

import "google.golang.org/grpc"

// ServerCredentials lets tests serve on a Listener without the interceptors.
func ServerCredentials() grpc.ServerOption { return grpc.Creds(handshakes{}) }
