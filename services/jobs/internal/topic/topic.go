// Package topic names the topics of the wake-ups between the replicas of jobs.
package topic

import "github.com/signalbox-dev/signalbox/platform/wake"

// The topics that do not belong to a single resource.
const (
	// Queue: something that the scheduler or the reconciler reads has changed.
	Queue wake.Topic = "queue"
	// Engines: the state of an engine work item has changed.
	Engines wake.Topic = "engines"
	// Signals: the signal that is pending for some run has changed.
	Signals wake.Topic = "signals"
	// Hardware: another hardware configuration is in force.
	Hardware wake.Topic = "hardware"
	// HardwareTaken: one instance, or the last one, has taken over the configuration.
	HardwareTaken wake.Topic = "hardware:taken"
)

// Job returns the topic of one job.
func Job(id string) wake.Topic { return wake.Topic("job:" + id) }

// Node returns the topic of the work assigned to one node.
func Node(id string) wake.Topic { return wake.Topic("node:" + id) }
