package db

import "github.com/signalbox-dev/signalbox/platform/pg"

// The topics that do not belong to a single resource.
const (
	// Queue: something that the scheduler or the reconciler reads has changed.
	QueueTopic pg.Topic = "queue"
	// Engines: the state of an engine work item has changed.
	EnginesTopic pg.Topic = "engines"
	// Signals: the signal that is pending for some run has changed.
	SignalsTopic pg.Topic = "signals"
	// Hardware: another hardware configuration is in force.
	HardwareTopic pg.Topic = "hardware"
	// HardwareTaken: one instance, or the last one, has taken over the configuration.
	HardwareTakenTopic pg.Topic = "hardware:taken"
)

// Job returns the topic of one job.
func JobTopic(id string) pg.Topic { return pg.Topic("job:" + id) }

// Node returns the topic of the work assigned to one node.
func NodeTopic(id string) pg.Topic { return pg.Topic("node:" + id) }
