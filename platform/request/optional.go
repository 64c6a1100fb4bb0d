package request

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// OptionalTime returns the timestamp of t, or nil if t is nil.
func OptionalTime(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}

// NonZeroTime returns the timestamp of t, or nil if t is the zero time.
func NonZeroTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// TimeOf returns the time of a timestamp, or nil if the timestamp is nil.
func TimeOf(ts *timestamppb.Timestamp) *time.Time {
	if ts == nil {
		return nil
	}
	t := ts.AsTime()
	return &t
}

// TimeOrZero returns the time of a timestamp, or the zero time if the timestamp is nil.
func TimeOrZero(ts *timestamppb.Timestamp) time.Time {
	if ts == nil {
		return time.Time{}
	}
	return ts.AsTime()
}

// StorableTime returns the time of a timestamp, truncated to microseconds, the precision with which Postgres stores
// times. A more precise time would always differ from the stored one. StorableTime returns nil if the timestamp is
// missing or invalid.
func StorableTime(ts *timestamppb.Timestamp) *time.Time {
	if !ts.IsValid() {
		return nil
	}
	t := ts.AsTime().Truncate(time.Microsecond)
	return &t
}

// NonEmpty returns a pointer to s, or nil if s is empty.
func NonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
