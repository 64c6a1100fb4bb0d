// Package request reads what every handler reads the same way: pages, ids in paths, the headers that
// travel as metadata; and says what the edge cannot know of an answer. What it refuses names the
// parameter.
package request

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/page"
)

// Page is the part of a list that was asked for.
func Page(limit, offset *int32) (page.Page, error) {
	p, err := page.New(limit, offset)
	if out, ok := errors.AsType[*page.RangeError](err); ok {
		return p, fault.InvalidFields(fault.At(fault.TypeValue, out.Error(), out.Param))
	}
	return p, err
}

// ID checks the form of an id that a path names.
func ID(prefix id.Prefix, field, value string) error {
	if id.Check(prefix, value) == nil {
		return nil
	}
	return fault.InvalidFields(fault.At(fault.TypeStringPattern,
		fmt.Sprintf("String should be an id: %s_ and 26 characters", prefix), field))
}

// IdempotencyKey is the key of a repeatable request, empty where there is none.
func IdempotencyKey(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	if keys := md.Get("idempotency-key"); len(keys) > 0 {
		return keys[0]
	}
	return ""
}

// SetMore tells the edge that a list has further rows.
func SetMore(ctx context.Context, more bool) error {
	if !more {
		return nil
	}
	if err := grpc.SetHeader(ctx, metadata.Pairs("x-service-more", "true")); err != nil {
		return fmt.Errorf("tell of further rows: %w", err)
	}
	return nil
}

// SetTotal tells the edge how many rows a list has in all, where counting them is cheap.
func SetTotal(ctx context.Context, total int) error {
	if err := grpc.SetHeader(ctx, metadata.Pairs("x-service-total", strconv.Itoa(total))); err != nil {
		return fmt.Errorf("tell the number of rows: %w", err)
	}
	return nil
}

// SetStatus tells the edge which status an answer has, where it is not the route's own.
func SetStatus(ctx context.Context, status int) error {
	if err := grpc.SetHeader(ctx, metadata.Pairs("x-service-status", strconv.Itoa(status))); err != nil {
		return fmt.Errorf("tell the status: %w", err)
	}
	return nil
}

// Match refuses a change of a row that is another one than the caller read: where If-Match was sent and
// names no version that the row has. Without the header, or with *, every version will do.
func Match(ctx context.Context, version int64) error {
	md, _ := metadata.FromIncomingContext(ctx)
	given := md.Get("if-match")
	if len(given) == 0 {
		return nil
	}
	for tag := range strings.SplitSeq(strings.Join(given, ","), ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || tag == etag(version) {
			return nil
		}
	}
	return fault.New(fault.Conflict, CodeStale, "If-Match does not name the present version, which is %s: read it again", etag(version))
}

// CodeStale is the code of a change that was made to an older version than the present one.
const CodeStale = "stale"

// SetETag tells the version of the row that is answered, for a later If-Match.
func SetETag(ctx context.Context, version int64) error {
	if err := grpc.SetHeader(ctx, metadata.Pairs("etag", etag(version))); err != nil {
		return fmt.Errorf("tell the version: %w", err)
	}
	return nil
}

func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }
