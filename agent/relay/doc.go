// Package relay lets inference on another host reach the engines of this node.
// Each engine gets a port of its own on the node's address, which speaks TLS 1.3
// with the node's certificate, lets in nobody but inference, and forwards bytes to
// the engine's port on loopback. It reads nothing of what it forwards.
package relay
