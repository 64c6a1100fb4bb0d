// Package topic names what the replicas of the registry wake each other about.
package topic

import "github.com/signalbox-dev/signalbox/platform/wake"

// The topics.
const (
	// Snapshot: what inference serves by has changed.
	Snapshot wake.Topic = "snapshot"
	// Acks: a replica of inference has put a newer snapshot in force.
	Acks wake.Topic = "acks"
)
