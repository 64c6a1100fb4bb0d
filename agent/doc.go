// Package agent owns the host agent: it joins a fleet, connects to the control plane and runs the desired works on its
// machine. signalboxd embeds it through New; cmd/signalbox-agent runs it as a separate process through Process, which
// adds flags, settings and signals.
//
// Works and engines do not depend on the agent process. The agent may be killed at any time, and the next
// agent with the same data folder continues where it stopped. After SIGTERM or SIGINT, works and engines
// keep running, unless --stop-works is set.
//
// A work passes the packages in this order: controlplane receives the desired works and sends the observations.
// executor defines the contract between controlplane and host. host implements that contract: it prepares works, runs
// them and ships their logs. engine builds the commands of serving engines and probes the engines. engineport lets the
// inference service on other hosts reach the engines.
package agent
