package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Event is one Server-Sent Event.
type Event struct {
	ID   string
	Name string
	Data string
}

// EventEOF is the name of a stream's last event.
const EventEOF = "eof"

// ErrUnexpectedEnd means that a stream ended without a read error but before its event `eof`.
var ErrUnexpectedEnd = errors.New("the stream ended before its eof event")

// maxLine is the maximum length of one line of a stream, in bytes.
const maxLine = 8 << 20

// Follow reads a stream and calls the function handle with each event. It returns after the event `eof`, when ctx ends,
// or when handle returns an error. It returns the ID of the last event, which the next call passes as lastID to resume.
// The error is ErrUnexpectedEnd if the stream ended before `eof`.
func (c *Client) Follow(ctx context.Context, path, lastID string, handle func(Event) error) (string, error) {
	return c.follow(ctx, path, lastID, func() {}, handle)
}

// follow is Follow. It calls alive with each line that arrives, also with those of comments.
func (c *Client) follow(ctx context.Context, path, lastID string, alive func(), handle func(Event) error) (string, error) {
	req, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return lastID, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	return c.stream(req, lastID, alive, handle)
}

// stream sends the request and reads events until an event named eof.
func (c *Client) stream(req *http.Request, lastID string, alive func(), handle func(Event) error) (string, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return lastID, unreachable(c.base, describe(req), err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxBody))
		return lastID, (&Response{Status: resp.StatusCode, Header: resp.Header, Body: raw}).Err()
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	var e Event
	var data []string
	for lines.Scan() {
		alive()
		line := lines.Text()
		if line != "" {
			data = e.field(line, data)
			continue
		}
		if e.Name == "" && data == nil {
			// An event without name and data is not passed to handle, but its ID still marks the position in
			// the stream.
			if e.ID != "" {
				lastID, e.ID = e.ID, ""
			}
			continue
		}
		e.Data = strings.Join(data, "\n")
		if e.ID != "" {
			lastID = e.ID
		}
		if err := handle(e); err != nil {
			return lastID, err
		}
		if e.Name == EventEOF {
			return lastID, nil
		}
		e, data = Event{}, nil
	}
	switch err := lines.Err(); {
	case err == nil:
		return lastID, ErrUnexpectedEnd
	case errors.Is(err, bufio.ErrTooLong):
		return lastID, fmt.Errorf("read the stream: %w", err)
	default:
		return lastID, &UnreachableError{Base: c.base, Request: describe(req), Err: fmt.Errorf("the stream broke: %w", err)}
	}
}

func (e *Event) field(line string, data []string) []string {
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "id":
		e.ID = value
	case "event":
		e.Name = value
	case "data":
		return append(data, value)
	}
	return data
}
