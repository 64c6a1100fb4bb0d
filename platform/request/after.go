package request

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// A list that grows while it is read has a parameter after, besides offset: the position of the last row of a page, after
// which the next page begins. A position is a value in the order of the list: the key by which the list is sorted, and the
// id of the row, which decides between rows with the same key. It is compared with the rows and never looked up, so the id
// of a row that was deleted, that is hidden or that never existed is a position like any other.
//
// The text of a position is the id alone if it states the key: the time of a list that is sorted by time, if the row was
// created when its id was made. Otherwise it is the key, a tilde and the id.

// afterField is the name of the parameter.
const afterField = "after"

// keyFormat is the format of times in positions.
const keyFormat = "2006-01-02T15:04:05.999999Z"

// TimePosition returns the position of a row in a list that is sorted by time and id.
func TimePosition(at time.Time, rowID string) string {
	if at = at.UTC().Truncate(time.Microsecond); at.Equal(id.Time(rowID)) {
		return rowID
	}
	return KeyPosition(at.Format(keyFormat), rowID)
}

// KeyPosition returns the position of a row in a list that is sorted by a text and an id.
func KeyPosition(key, rowID string) string { return key + "~" + rowID }

// ReadTimePosition returns the time and the id of a position, or a 422 error. A list without the parameter begins at its
// first row: ReadTimePosition then returns no id.
func ReadTimePosition(prefix id.Prefix, after *string) (at time.Time, rowID string, err error) {
	if after == nil {
		return at, "", nil
	}
	key, rowID, found := cutPosition(*after)
	if id.Check(prefix, rowID) != nil {
		return at, "", badPosition(fmt.Sprintf("String should be an id, %s_ and 26 characters, or the value in the Link of a page", prefix))
	}
	if !found {
		return id.Time(rowID), rowID, nil
	}
	at, err = time.Parse(time.RFC3339Nano, key)
	if year := at.UTC().Year(); err != nil || year < 1 || year > 9999 { // Postgres reads no text with another year
		return time.Time{}, "", badPosition("String should be the value in the Link of a page, or an id")
	}
	return at, rowID, nil
}

// ReadKeyPosition returns the key and the id of a position in a list that is sorted by a text, or a 422 error.
func ReadKeyPosition(prefix id.Prefix, after *string) (key, rowID string, err error) {
	if after == nil {
		return "", "", nil
	}
	key, rowID, found := cutPosition(*after)
	if !found || id.Check(prefix, rowID) != nil {
		return "", "", badPosition("String should be the value in the Link of a page: in this order, an id alone is not a position")
	}
	return key, rowID, nil
}

// cutPosition divides a position at its last tilde, because no id contains one.
func cutPosition(after string) (key, rowID string, found bool) {
	at := strings.LastIndexByte(after, '~')
	if at < 0 {
		return "", after, false
	}
	return after[:at], after[at+1:], true
}

func badPosition(msg string) error {
	return fault.InvalidFields(fault.At(fault.TypeStringPattern, msg, afterField))
}

// SetNextAfter is SetNext for the rows of a page. The given function returns the position of the last one.
func SetNextAfter[T any](ctx context.Context, more bool, rows []T, position func(last *T) string) error {
	if !more || len(rows) == 0 {
		return nil
	}
	return SetNext(ctx, true, position(&rows[len(rows)-1]))
}

// SetNext makes the gateway add the link to the next page of a list if it has more rows. The link contains the position of
// the last row of this page.
func SetNext(ctx context.Context, more bool, last string) error {
	if !more {
		return nil
	}
	if err := setHeader(ctx, "x-service-after", url.PathEscape(last)); err != nil {
		return err
	}
	return SetMore(ctx, true)
}

// NextOf returns the position in the header of SetNext. It is escaped there, because a header can carry no line break, and
// the name of a row can have one. The services of earlier versions do not escape it.
func NextOf(header string) string {
	if position, err := url.PathUnescape(header); err == nil {
		return position
	}
	return header
}
