package db

import "github.com/signalbox-dev/signalbox/platform/pg"

// The topics.
const (
	// SnapshotTopic announces that the state that inference serves has changed.
	SnapshotTopic pg.Topic = "snapshot"
	// AcksTopic announces that a replica of inference has applied a newer snapshot.
	AcksTopic pg.Topic = "acks"
)
