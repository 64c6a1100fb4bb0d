// Package agent owns the host agent: it joins a fleet, connects to the control
// plane and runs the desired works on its machine. signalboxd embeds it, and
// cmd/signalbox-agent runs it as a separate process; both create it with New.
// It promises that works and engines do not depend on the agent process: the agent
// may be killed at any time, and the next agent over the same folder continues
// where it stopped.
package agent
