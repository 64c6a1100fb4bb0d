// Package engineport lets other hosts reach the engines of this node. Each engine gets its own port on the
// node's address. The port uses TLS 1.3 with the node's certificate and accepts only the inference service
// as client. It forwards bytes to the engine's loopback port without inspecting them.
package engineport
