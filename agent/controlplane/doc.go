// Package controlplane owns the agent's connection to the control plane. It joins the fleet, stores and
// renews the node's certificate, opens the connection, sends observations, and passes desired works to the
// executor. A lost connection only delays changes: both sides send their complete state, and works and
// engines run without the connection.
package controlplane
