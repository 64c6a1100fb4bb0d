// Package request owns the parts of requests and responses that all handlers treat in the same way: pages of lists,
// ids in paths, request headers that arrive as metadata, response headers for the gateway, and fields of messages that
// may be missing. List bodies are plain arrays; the total and the next page are headers. Validation errors contain the
// name of the parameter.
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
)

// ReadPage returns the requested page of a list, or a 422 error if a parameter is out of range.
func ReadPage(limit, offset *int32) (Page, error) {
	p, err := NewPage(limit, offset)
	if out, ok := errors.AsType[*PageRangeError](err); ok {
		return p, fault.InvalidFields(fault.At(fault.TypeValue, out.Error(), out.Param))
	}
	return p, err
}

// ID returns a 422 error unless the value is an id with the prefix. The parameter field is the name of the path
// parameter.
func ID(prefix id.Prefix, field, value string) error {
	if id.Check(prefix, value) == nil {
		return nil
	}
	return fault.InvalidFields(fault.At(fault.TypeStringPattern,
		fmt.Sprintf("String should be an id: %s_ and 26 characters", prefix), field))
}

// StreamPosition returns a 422 error if the requested position is past the last id of the stream. Such a position comes
// from another stream, and a caller that waited at it would miss all events before it.
func StreamPosition(after, last int64) error {
	if after <= last {
		return nil
	}
	field := fault.At(fault.TypeLessThanEqual, fmt.Sprintf("Input should be less than or equal to %d, the stream's last id", last), "after")
	field.Ctx = map[string]any{"le": last}
	return fault.InvalidFields(field)
}

// IdempotencyKey returns the Idempotency-Key of the request, or "".
func IdempotencyKey(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	if keys := md.Get("idempotency-key"); len(keys) > 0 {
		return keys[0]
	}
	return ""
}

// SetMore makes the gateway add the link to the next page if the list has more rows.
func SetMore(ctx context.Context, more bool) error {
	if !more {
		return nil
	}
	return setHeader(ctx, "x-service-more", "true")
}

// SetTotal makes the gateway add the total number of rows. It is for lists that are cheap to count.
func SetTotal(ctx context.Context, total int) error {
	return setHeader(ctx, "x-service-total", strconv.Itoa(total))
}

// SetStatus makes the gateway respond with this status instead of the default status of the route.
func SetStatus(ctx context.Context, status int) error {
	return setHeader(ctx, "x-service-status", strconv.Itoa(status))
}

// CheckIfMatch returns a Conflict if the If-Match header does not contain the version of the row: the row has changed
// since the caller read it. Without the header, or with *, every version matches.
func CheckIfMatch(ctx context.Context, version int64) error {
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
	return fault.New(fault.Conflict, CodeStale, "If-Match does not match the current version %s; read the resource again", etag(version))
}

// CodeStale is the error code of an update that is based on an older version.
const CodeStale = "stale"

// SetETag sends the version of the row in the response, for a later If-Match.
func SetETag(ctx context.Context, version int64) error {
	return setHeader(ctx, "etag", etag(version))
}

func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

func setHeader(ctx context.Context, name, value string) error {
	if err := grpc.SetHeader(ctx, metadata.Pairs(name, value)); err != nil {
		return fmt.Errorf("set the header %s: %w", name, err)
	}
	return nil
}
