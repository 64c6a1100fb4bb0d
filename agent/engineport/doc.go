// Package engineport owns the access of other hosts to the engines of this node. Each engine
// gets its own port on the node's address. The port speaks TLS 1.3 with the node's
// certificate, accepts only the inference service, and forwards bytes to the engine's
// port on loopback without inspecting them.
package engineport
