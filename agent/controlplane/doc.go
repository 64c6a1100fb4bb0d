// Package controlplane owns the agent's connection to the control plane. It joins the fleet,
// keeps and renews the node's certificate, dials out, sends observations and passes on
// desired works. It promises that a lost connection costs only a delay: both sides send
// their complete state, and works and engines do not depend on the connection.
package controlplane
