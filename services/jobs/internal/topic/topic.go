// Package topic names what the replicas of jobs wake each other about.
package topic

import "github.com/signalbox-dev/signalbox/platform/wake"

// The topics that are not about one resource.
const (
	// Queue: what the scheduler and the reconciler look at has changed.
	Queue wake.Topic = "queue"
	// Engines: what is known of engine works has changed.
	Engines wake.Topic = "engines"
	// Signals: what some run's training is asked has changed.
	Signals wake.Topic = "signals"
	// Hardware: another hardware configuration is in force.
	Hardware wake.Topic = "hardware"
	// HardwareTaken: an instance has taken it over, or all have.
	HardwareTaken wake.Topic = "hardware:taken"
)

// Job is the topic of one job.
func Job(id string) wake.Topic { return wake.Topic("job:" + id) }

// Node is the topic of what one node is asked to do.
func Node(id string) wake.Topic { return wake.Topic("node:" + id) }
