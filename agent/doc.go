// Package agent owns the host agent: it joins a fleet, connects to the control plane and runs the desired works on its
// machine. signalboxd embeds it through New; cmd/signalbox-agent runs it as a separate process through Process, which
// adds flags, settings and signals.
//
// Works and engines do not depend on the agent process. The agent may be killed at any time, and the next
// agent with the same data folder continues where it stopped. On SIGTERM and SIGINT works and engines keep
// running, unless --stop-works is set.
package agent
