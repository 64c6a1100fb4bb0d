package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/logview"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// maxTail bounds --tail.
const maxTail = 100_000

// logReader prints the log of one run.
type logReader struct {
	t      *tool
	c      *client.Client
	path   string // of the log
	query  url.Values
	tail   int
	lines  *logview.Writer
	values *output.Printer // nil if lines are printed as text
	copied *logview.Writer // nil if lines are printed only
	last   int64           // number of the last line that was printed or searched
	array  bool            // lines are collected and printed as one array
	rows   []json.RawMessage
}

func (t *tool) runLogs(cmd *cobra.Command, called string, o logOptions) error {
	if o.tail > maxTail {
		return session.Usage("--tail prints at most %d lines; without it, the whole log is printed", maxTail)
	}
	if err := o.check(cmd); err != nil {
		return err
	}
	query, err := o.query(t.now())
	if err != nil {
		return err
	}
	r, err := t.newLogReader(cmd.Context(), called, o)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	r.array = !o.follow && r.values != nil && (r.values.Format == output.JSON || r.values.Format == output.YAML)
	first, follow := r.first, r.follow
	if o.filtered() {
		r.query = query
		first, follow = r.searchFirst, r.followSearch
	}
	if err := first(ctx); err != nil {
		return err
	}
	switch {
	case r.array:
		return r.values.Rows(lineColumns(), r.rows)
	case o.follow:
		return follow(ctx)
	}
	return nil
}

func lineColumns() []output.Column { return []output.Column{{Name: "text"}} }

func (t *tool) newLogReader(ctx context.Context, called string, o logOptions) (*logReader, error) {
	c, err := t.Client()
	if err != nil {
		return nil, err
	}
	id, err := t.source(ctx, c, called)
	if err != nil {
		return nil, err
	}
	p, err := t.Printer()
	if err != nil {
		return nil, err
	}
	r := &logReader{t: t, c: c, path: runKind().at(id, "logs"), tail: o.tail}
	if !p.ForPeople() {
		r.values = p
	}
	r.lines = &logview.Writer{Out: t.Out, Labels: o.labels, Terminal: t.OutTerminal, Color: p.Color, Width: t.Width, Zone: t.Zone}
	return r, nil
}

// source returns the id of the job or the run that has reported something: of several jobs with a name, that of the newest.
func (t *tool) source(ctx context.Context, c *client.Client, called string) (string, error) {
	if isID(runKind().prefix, called) {
		return called, nil
	}
	id, err := t.newest(ctx, c, jobKind(), called)
	if !as[*NotFoundError](err) {
		return id, err
	}
	id, err = t.id(ctx, c, runKind(), called)
	if as[*NotFoundError](err) {
		return "", &NotFoundError{fmt.Sprintf("no job and no run is called %q; signalbox jobs ls and signalbox runs ls list those that you may see", called)}
	}
	return id, err
}

// line prints one line.
func (r *logReader) line(raw json.RawMessage) error {
	var l logview.Line
	if err := json.Unmarshal(raw, &l); err != nil {
		return fmt.Errorf("decode a line of the log: %w", err)
	}
	if l.Seq > 0 {
		r.last = max(r.last, l.Seq)
	}
	if r.copied != nil {
		if err := r.copied.Line(l); err != nil {
			return err
		}
	}
	switch {
	case r.array && len(r.rows) == maxTail:
		return session.Usage("the log has more than %d lines; use -o jsonl, or --tail", maxTail)
	case r.array:
		r.rows = append(r.rows, raw)
		return nil
	case r.values != nil:
		return r.values.Row(lineColumns(), raw)
	}
	return r.lines.Line(l)
}

// first prints the whole log as it is now, or its last lines.
func (r *logReader) first(ctx context.Context) error {
	if r.tail < 0 && r.values == nil {
		return r.download(ctx)
	}
	if r.tail < 0 {
		_, _, err := r.c.Each(ctx, r.path, nil, everyLine, r.line)
		return err
	}
	rows, err := r.lastLines(ctx, r.tail)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := r.line(row); err != nil {
			return err
		}
	}
	return nil
}

const (
	// everyLine exceeds the number of lines of any log.
	everyLine = 1 << 40
	// pageOfLines is the number of lines of a page.
	pageOfLines = 500
)

// download prints the whole log from its text file, which is faster than pages of lines. Each line begins with its number,
// so that a download that breaks off continues after the last whole line.
func (r *logReader) download(ctx context.Context) error {
	return r.t.Watcher(r.c).Retry(ctx, func() error {
		lines := &lineSplitter{handle: r.labeled}
		query := url.Values{"labels": {"true"}, "after": {strconv.FormatInt(r.last, 10)}}
		return r.c.Stream(ctx, r.path+"/download", query, lines)
	})
}

// labeled prints a line of the text file: its number, time, attempt and rank, and the text, separated by tabs.
func (r *logReader) labeled(line string) error {
	const parts = 5
	part := strings.SplitN(line, "\t", parts)
	if len(part) < parts {
		return errors.New("a line of the log has no number")
	}
	seq, err := strconv.ParseInt(part[0], 10, 64)
	if err != nil {
		return fmt.Errorf("read the number of a line: %w", err)
	}
	l := logview.Line{Seq: seq, Text: part[parts-1]}
	if part[1] != "" {
		l.TS = &part[1]
	}
	if rank, err := strconv.Atoi(part[3]); err == nil {
		l.Rank = &rank
	}
	if err := r.lines.Line(l); err != nil {
		return err
	}
	r.last = seq
	return nil
}

// lineSplitter calls handle with each whole line that is written to it.
type lineSplitter struct {
	rest   []byte
	handle func(line string) error
}

// Write implements io.Writer.
func (s *lineSplitter) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for {
		line, rest, found := bytes.Cut(s.rest, []byte{'\n'})
		if !found {
			return len(p), nil
		}
		if err := s.handle(string(line)); err != nil {
			return 0, err
		}
		s.rest = rest
	}
}

// lastLines returns the last n lines. Even without any, it notes the number of the last line, from which to follow.
func (r *logReader) lastLines(ctx context.Context, n int) ([]json.RawMessage, error) {
	var pages [][]json.RawMessage
	query := url.Values{"tail": {"true"}}
	for missing := max(n, 1); missing > 0; {
		size := min(missing, pageOfLines)
		query.Set("limit", strconv.Itoa(size))
		var rows []json.RawMessage
		if err := r.c.Get(ctx, r.path, query, &rows); err != nil {
			return nil, err
		}
		pages = append(pages, rows)
		missing -= len(rows)
		if len(rows) < size {
			break
		}
		var l logview.Line
		if err := json.Unmarshal(rows[0], &l); err != nil {
			return nil, fmt.Errorf("decode a line of the log: %w", err)
		}
		query = url.Values{"before": {strconv.FormatInt(l.Seq, 10)}}
	}
	slices.Reverse(pages)
	rows := slices.Concat(pages...)
	if n == 0 && len(rows) > 0 {
		var l logview.Line
		if err := json.Unmarshal(rows[len(rows)-1], &l); err != nil {
			return nil, fmt.Errorf("decode a line of the log: %w", err)
		}
		r.last = l.Seq
		return nil, nil
	}
	return rows, nil
}

// follow prints new lines until the run has ended.
func (r *logReader) follow(ctx context.Context) error {
	return r.t.Watcher(r.c).Watch(ctx, r.path+"/stream", strconv.FormatInt(r.last, 10), func(e client.Event) error {
		switch e.Name {
		case "line":
			return r.line(json.RawMessage(e.Data))
		case "partial":
			return r.unfinished(e.Data)
		}
		return nil
	})
}

func (r *logReader) unfinished(data string) error {
	if r.values != nil {
		return nil
	}
	var partial struct {
		Lines []logview.Line `json:"lines"`
	}
	if err := json.Unmarshal([]byte(data), &partial); err != nil {
		return fmt.Errorf("decode the unfinished lines of the log: %w", err)
	}
	return r.lines.Unfinished(partial.Lines)
}

// found is a response of the search in a log.
type found struct {
	Lines    []json.RawMessage `json:"lines"`
	Searched int64             `json:"searched"`
	Complete bool              `json:"complete"`
}

// search calls handle with the lines that match, from the last searched line to the end of the log.
func (r *logReader) search(ctx context.Context, handle func(json.RawMessage) error) error {
	for {
		query := url.Values{"after": {strconv.FormatInt(r.last, 10)}, "limit": {strconv.Itoa(pageOfLines)}}
		maps.Copy(query, r.query)
		var page found
		if err := r.c.Get(ctx, r.path+"/search", query, &page); err != nil {
			return err
		}
		for _, row := range page.Lines {
			if err := handle(row); err != nil {
				return err
			}
		}
		if page.Searched < r.last {
			return errors.New("the search went back in the log")
		}
		r.last = page.Searched
		if page.Complete {
			return nil
		}
	}
}

// searchFirst prints the lines of the log as it is now that match, or the last of them.
func (r *logReader) searchFirst(ctx context.Context) error {
	if r.tail < 0 {
		return r.search(ctx, r.print)
	}
	var kept []json.RawMessage
	err := r.search(ctx, func(row json.RawMessage) error {
		if kept = append(kept, row); len(kept) > 2*(r.tail+1) {
			kept = append([]json.RawMessage{}, kept[len(kept)-r.tail:]...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, row := range kept[max(0, len(kept)-r.tail):] {
		if err := r.print(row); err != nil {
			return err
		}
	}
	return nil
}

// print prints a line that was found, without a change of the position of the search.
func (r *logReader) print(row json.RawMessage) error {
	searched := r.last
	err := r.line(row)
	r.last = searched
	return err
}

// followSearch prints new lines that match until the run has ended. A line of the stream only shows that the log has
// grown; the server searches, so that a filter means the same as without --follow.
func (r *logReader) followSearch(ctx context.Context) error {
	err := r.t.Watcher(r.c).Watch(ctx, r.path+"/stream", strconv.FormatInt(r.last, 10), func(e client.Event) error {
		if e.Name != "line" {
			return nil
		}
		seq, err := strconv.ParseInt(e.ID, 10, 64)
		if err != nil {
			return fmt.Errorf("read the number of a line: %w", err)
		}
		if seq <= r.last {
			return nil // the last search has read it
		}
		return r.searchAgain(ctx)
	})
	if err != nil {
		return err
	}
	return r.searchAgain(ctx)
}

// searchAgain prints the matches from the last searched line to the end of the log. If the server cannot be reached, it
// tries again, from where the search stopped.
func (r *logReader) searchAgain(ctx context.Context) error {
	return r.t.Watcher(r.c).Retry(ctx, func() error { return r.search(ctx, r.print) })
}
