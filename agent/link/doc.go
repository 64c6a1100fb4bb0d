// Package link is the agent's one line to the control plane: it joins the fleet,
// keeps the node's key and certificate, dials out, tells what is observed and
// hands on what is desired. It promises that a lost line costs a delay only: both
// sides tell the whole, and nothing that runs depends on the line.
package link
