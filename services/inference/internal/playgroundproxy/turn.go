package playgroundproxy

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

const (
	// maxKept is the maximum number of bytes of a body that the transcript stores.
	maxKept = 64 << 10
	// storeWithin limits the time to store a turn after its call.
	storeWithin = 5 * time.Second
)

// turn collects the bodies of one call and stores them. It implements proxy.Capture and the recorder of the proxy.
type turn struct {
	store     *Store
	log       *slog.Logger
	sessionID string
	target    int32
	by        Admitted

	request, response       []byte
	requestCut, responseCut bool
}

// Request implements proxy.Capture.
func (t *turn) Request(b []byte, whole bool) {
	t.request, t.requestCut = keep(nil, b)
	t.requestCut = t.requestCut || !whole
}

// Response implements proxy.Capture.
func (t *turn) Response(b []byte) {
	var cut bool
	t.response, cut = keep(t.response, b)
	t.responseCut = t.responseCut || cut
}

func keep(kept, b []byte) (_ []byte, cut bool) {
	room := maxKept - len(kept)
	return append(kept, b[:min(room, len(b))]...), len(b) > room
}

// Record stores the turn. A failure must not change the response, so it is only logged and the turn is lost.
func (t *turn) Record(ctx context.Context, c *traffic.Call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWithin)
	defer cancel()
	err := t.store.Put(ctx, &Turn{
		ID: c.RequestID, SessionID: t.sessionID, Target: t.target, At: c.At, UserID: t.by.UserID, Username: t.by.Username, Method: c.Method,
		Path: c.Path, Status: c.Status, Outcome: c.Outcome, Request: text(t.request), RequestCut: t.requestCut, Response: text(t.response),
		ResponseCut: t.responseCut, Duration: c.Duration,
	})
	if err != nil {
		t.log.WarnContext(ctx, "cannot store a turn of a playground session", "error", err, "request_id", c.RequestID)
	}
}

// text converts bytes to a string that a text column can store.
func text(b []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "\uFFFD")
}
