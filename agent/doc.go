// Package agent is the host agent: it joins its fleet, dials out to the control
// plane, and runs what it is told on its machine. It is embedded in signalboxd
// and is a process of its own in cmd/signalbox-agent; both build it from New. It
// promises that what runs does not depend on it: it may be killed at any moment,
// and the next one over the same folder goes on where it stood.
package agent
