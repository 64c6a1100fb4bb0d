// Package topic owns the wake-up topics that replicas of the registry share.
package topic

import "github.com/signalbox-dev/signalbox/platform/wake"

// The topics.
const (
	// Snapshot: the state that inference serves has changed.
	Snapshot wake.Topic = "snapshot"
	// Acks: a replica of inference has applied a newer snapshot.
	Acks wake.Topic = "acks"
)
