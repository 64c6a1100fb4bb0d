package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

const (
	// watchPoll is the pause between two reads of a list without a stream.
	watchPoll = 2 * time.Second
	// watchSettle collects the changes of a list that come one after the other.
	watchSettle = 200 * time.Millisecond
	// maxWatched bounds the rows of a list that is watched.
	maxWatched = 1000
)

// watchList prints a list, and prints it again when it changes, until the command is interrupted. Without a terminal, it
// prints the rows that are new or have changed.
func (t *tool) watchList(cmd *cobra.Command, c *client.Client, k kind, path string, query url.Values, limit int) error {
	p, err := t.Printer()
	if err != nil {
		return err
	}
	if limit < 1 || limit > maxWatched {
		return session.Usage("--watch shows 1 to %d rows; choose with --limit", maxWatched)
	}
	w := &watched{t: t, p: p, k: k, seen: map[string]string{}}
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	group, ctx := errgroup.WithContext(cmd.Context())
	group.Go(func() error { return t.awaitChanges(ctx, c, k, query, changed) })
	group.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-changed:
			}
			var list client.List
			err := t.Watcher(c).Retry(ctx, func() (err error) {
				list, err = c.List(ctx, path, query, limit)
				return err
			})
			if err != nil {
				return err
			}
			if err := w.show(list.Rows); err != nil {
				return err
			}
			if err := clock.Sleep(ctx, t.Clock, watchSettle); err != nil {
				return err
			}
		}
	})
	return group.Wait()
}

// awaitChanges signals each change of a list: by its stream, or, if it has none, every few seconds.
func (t *tool) awaitChanges(ctx context.Context, c *client.Client, k kind, query url.Values, changed chan<- struct{}) error {
	signal := func() {
		select {
		case changed <- struct{}{}:
		default: // a change is already signaled
		}
	}
	if !k.stream {
		for {
			if err := clock.Sleep(ctx, t.Clock, watchPoll); err != nil {
				return err
			}
			signal()
		}
	}
	query = maps.Clone(query)
	query.Del("sort") // a stream has no order
	path := k.path + "/stream?" + query.Encode()
	return t.Watcher(c).Watch(ctx, path, "", func(client.Event) error {
		signal()
		return nil
	})
}

// watched is a list as it was last shown.
type watched struct {
	t     *tool
	p     *output.Printer
	k     kind
	seen  map[string]string
	shown []byte
}

// show shows the rows of the list.
func (w *watched) show(rows []json.RawMessage) error {
	if w.t.OutTerminal && w.p.Format.IsTable() && w.p.Filter == nil {
		return w.redraw(rows)
	}
	now := make(map[string]string, len(rows))
	for _, row := range rows {
		name, err := output.NameOf(row)
		if err != nil {
			return err
		}
		if now[name] = string(row); w.seen[name] == now[name] {
			continue
		}
		if err := w.p.Row(w.k.columns, row); err != nil {
			return err
		}
	}
	w.seen = now
	return nil
}

// redraw draws the table from the top of the terminal, if it differs from the one that is there.
func (w *watched) redraw(rows []json.RawMessage) error {
	var b bytes.Buffer
	p := *w.p
	p.Out = &b
	if len(rows) == 0 {
		fmt.Fprintf(&b, "no %s\n", w.k.many)
	} else if err := p.Rows(w.k.columns, rows); err != nil {
		return err
	}
	if bytes.Equal(b.Bytes(), w.shown) {
		return nil
	}
	w.shown = bytes.Clone(b.Bytes())
	const clear = "\x1b[H\x1b[J" // from the top left corner on
	_, err := fmt.Fprintf(w.t.Out, "%s%s", clear, b.Bytes())
	return err
}
