package db

import "github.com/signalbox-dev/signalbox/platform/pg"

// The topics that do not belong to a single resource.
const (
	// QueueTopic: rows have changed on which the scheduler or the reconciler depends.
	QueueTopic pg.Topic = "queue"
	// EnginesTopic: the state of an engine work item has changed.
	EnginesTopic pg.Topic = "engines"
	// SignalsTopic: the signal that is pending for some run has changed.
	SignalsTopic pg.Topic = "signals"
	// JobsTopic: the table job_change has new rows. The trigger of the table job sends it.
	JobsTopic pg.Topic = "jobs"
	// RunsTopic: the table run_change has new rows. The trigger of the table run sends it.
	RunsTopic pg.Topic = "runs"
	// HardwareTopic: another hardware configuration is in force.
	HardwareTopic pg.Topic = "hardware"
	// HardwareTakenTopic: an instance has updated its copy of the hardware configuration.
	HardwareTakenTopic pg.Topic = "hardware:taken"
)

// JobTopic returns the topic of one job.
func JobTopic(id string) pg.Topic { return pg.Topic("job:" + id) }

// NodeTopic returns the topic of the work assigned to one node.
func NodeTopic(id string) pg.Topic { return pg.Topic("node:" + id) }
