package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/plot"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

type metricOptions struct {
	keys        []string
	plot, log   bool
	follow      bool
	x           string
	rows, limit int
	rank        int
	attempt     string
}

func (t *tool) metrics() *cobra.Command {
	var o metricOptions
	cmd := &cobra.Command{
		Use: "metrics JOB|RUN", GroupID: groupWork, Short: "Show the metrics of a job or run, as values or as charts",
		Long: `Show the latest, lowest, highest and best value of each metric of a job or run.

With --plot, each metric is a chart; name some with --key, or the first four are drawn. With --follow, new values are printed as they arrive.
"signalbox runs export" has every value.`,
		Example: `signalbox metrics my-job
signalbox metrics my-job --plot --key train/loss --log
signalbox metrics my-job --follow --key val/exact_match`,
		Args: arguments(1, 1), ValidArgsFunction: t.complete(jobKind()),
		RunE: func(cmd *cobra.Command, args []string) error { return t.runMetrics(cmd, args[0], o) },
	}
	f := cmd.Flags()
	f.StringSliceVarP(&o.keys, "key", "k", nil, "only this metric; can be repeated")
	f.BoolVar(&o.plot, "plot", false, "draw a chart of each metric")
	f.BoolVar(&o.log, "log", false, "draw with a logarithmic axis")
	f.StringVar(&o.x, "x", "step", "what charts have on the horizontal axis: step, time or the key of a metric")
	f.IntVar(&o.rows, "rows", defaultPlotRows, "height of a chart in lines")
	f.BoolVarP(&o.follow, "follow", "f", false, "print new values until the run has ended")
	f.IntVar(&o.rank, "rank", -1, "only values of the process with this rank")
	f.StringVar(&o.attempt, "attempt", "", "only values of this attempt; all for a series for each attempt")
	addLimit(cmd, &o.limit)
	return cmd
}

const (
	defaultPlotRows, maxPlotRows = 10, 200
	// maxCharts is how many metrics are drawn if none is named.
	maxCharts = 4
	// narrowPlot is the width of a chart if the output is not a terminal, in characters.
	narrowPlot = 80
	// plotMargin is the room for the labels beside a chart, in characters.
	plotMargin = 12
)

func metricKind() kind {
	return kind{one: "metric", many: "metrics", columns: []output.Column{
		{Name: "key"},
		{Name: "step", Path: "latest.step", Right: true},
		{Name: "latest", Path: "latest.value", Right: true, As: output.Number},
		{Name: "min", Path: "min.value", Right: true, As: output.Number},
		{Name: "max", Path: "max.value", Right: true, As: output.Number},
		{Name: "best", Path: "best.value", Right: true, As: output.Number},
		{Name: "best_step", Path: "best.step", Right: true, Wide: true},
		{Name: "count", Right: true},
		{Name: "nan", Right: true, Wide: true},
		{Name: "rank", Right: true, Wide: true},
		{Name: "attempt", Right: true, Wide: true},
		{Name: "at", Path: "latest.ts", Wide: true, As: output.Time},
	}}
}

func (t *tool) runMetrics(cmd *cobra.Command, called string, o metricOptions) error {
	c, id, err := t.sourceOf(cmd, called)
	if err != nil {
		return err
	}
	path := runPath(id)
	query := url.Values{}
	if len(o.keys) > 0 {
		query["keys"] = o.keys
	}
	if o.rank >= 0 {
		query.Set("rank", strconv.Itoa(o.rank))
	}
	if o.attempt != "" {
		query.Set("attempt", o.attempt)
	}
	switch {
	case o.rows < 1 || o.rows > maxPlotRows:
		return session.Usage("--rows must be from 1 to %d", maxPlotRows)
	case o.plot && o.follow:
		return session.Usage("use either --plot or --follow")
	case o.plot:
		return t.plotMetrics(cmd, c, path, query, o)
	case o.follow && (o.rank >= 0 || o.attempt != ""):
		return session.Usage("--follow shows the values of all attempts, without --rank and --attempt")
	case o.follow:
		return t.followMetrics(cmd, c, path, o)
	}
	return t.printList(cmd, c, metricKind(), path+"/metrics/summary", query, o.limit)
}

// series is a series of GET /api/runs/{id}/series.
type series struct {
	Key     string   `json:"key"`
	Attempt *int     `json:"attempt"`
	Count   int64    `json:"count"`
	Points  []point  `json:"points"`
	Buckets []bucket `json:"buckets"`
	Last    *point   `json:"last"`
}

type point struct {
	Step  int64  `json:"step"`
	Value number `json:"value"`
	TS    string `json:"ts"`
}

type bucket struct {
	From string  `json:"from"`
	Min  *number `json:"min"`
	Max  *number `json:"max"`
}

// number is a number that may be NaN or infinite, which the API sends as texts.
type number float64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(raw []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	*n = number(f)
	return err
}

func (t *tool) plotMetrics(cmd *cobra.Command, c *client.Client, path string, query url.Values, o metricOptions) error {
	p, err := t.Printer()
	if err != nil {
		return err
	}
	width := narrowPlot
	if p.Width > 0 {
		width = p.Width
	}
	columns := max(width-plotMargin, plotMargin)
	most := o.limit
	if !cmd.Flags().Changed("limit") && len(o.keys) == 0 {
		most = maxCharts
	}
	query.Set("points", strconv.Itoa(min(max(columns, minBuckets), maxBuckets)))
	query.Set("x", o.x)
	list, err := c.List(cmd.Context(), path+"/series", query, most)
	if err != nil {
		return err
	}
	if !p.ForPeople() {
		return p.Rows(nil, list.Rows)
	}
	if len(list.Rows) == 0 && len(o.keys) > 0 {
		return &NotFoundError{fmt.Sprintf("the run has no metric %s; without --key, all are shown", strings.Join(o.keys, ", "))}
	}
	if len(list.Rows) == 0 {
		t.Say("no metrics")
		return nil
	}
	for _, row := range list.Rows {
		var s series
		if err := json.Unmarshal(row, &s); err != nil {
			return fmt.Errorf("decode a series: %w", err)
		}
		chart := plot.Chart{Title: s.title(), Note: s.note(), Points: s.drawn(o.x), Columns: columns, Rows: o.rows, Log: o.log, ASCII: t.Getenv("TERM") == "dumb"}
		if o.x == "time" {
			chart.Labels = plot.Times(t.Zone)
		}
		if err := chart.Write(t.Out); err != nil {
			return err
		}
	}
	if list.More {
		t.Say("the first %d metrics; choose others with --key, or more with --limit", most)
	}
	return nil
}

// minBuckets and maxBuckets bound the resolution of a chart.
const (
	minBuckets = 5
	maxBuckets = 2000
)

// title names a series. There can be one for each attempt.
func (s series) title() string {
	if s.Attempt == nil {
		return s.Key
	}
	return fmt.Sprintf("%s, attempt %d", s.Key, *s.Attempt)
}

func (s series) note() string {
	if s.Last == nil {
		return ""
	}
	return fmt.Sprintf("  %s at step %d, %d values", output.Digits(float64(s.Last.Value)), s.Last.Step, s.Count)
}

// drawn returns what a chart draws of a series.
func (s series) drawn(x string) []plot.Point {
	var out []plot.Point
	for _, p := range s.Points {
		at := float64(p.Step)
		if x == "time" {
			at = seconds(p.TS)
		}
		out = append(out, plot.Point{X: at, Low: float64(p.Value), High: float64(p.Value)})
	}
	for _, b := range s.Buckets {
		if b.Min != nil && b.Max != nil {
			out = append(out, plot.Point{X: position(b.From, x), Low: float64(*b.Min), High: float64(*b.Max)})
		}
	}
	slices.SortStableFunc(out, func(a, b plot.Point) int { return cmp.Compare(a.X, b.X) })
	return out
}

// position returns where a bucket begins: a step, a value, or a time in seconds.
func position(from, x string) float64 {
	if x == "time" {
		return seconds(from)
	}
	value, err := strconv.ParseFloat(from, 64)
	if err != nil {
		return math.NaN() // a chart leaves it out
	}
	return value
}

func seconds(ts string) float64 {
	at, err := time.Parse(time.RFC3339, ts)
	if err != nil {
		return math.NaN()
	}
	return float64(at.UnixMicro()) / 1e6
}

func (t *tool) followMetrics(cmd *cobra.Command, c *client.Client, path string, o metricOptions) error {
	p, err := t.Printer()
	if err != nil {
		return err
	}
	columns := []output.Column{{Name: "step"}, {Name: "key"}, {Name: "value", As: output.Number}}
	return t.Watcher(c).Watch(cmd.Context(), path+"/metrics/stream", "", func(e client.Event) error {
		if e.Name != "batch" {
			return nil
		}
		var batch struct {
			Points []json.RawMessage `json:"points"`
		}
		if err := json.Unmarshal([]byte(e.Data), &batch); err != nil {
			return fmt.Errorf("decode new values: %w", err)
		}
		for _, raw := range batch.Points {
			var at struct {
				Key string `json:"key"`
			}
			if err := json.Unmarshal(raw, &at); err != nil {
				return fmt.Errorf("decode a value: %w", err)
			}
			if len(o.keys) > 0 && !slices.Contains(o.keys, at.Key) {
				continue
			}
			if err := p.Row(columns, raw); err != nil {
				return err
			}
		}
		return nil
	})
}

// validationColumns are the columns of the list of validation rounds.
func validationColumns() []output.Column {
	return []output.Column{
		{Name: "step", Right: true},
		{Name: "samples", Right: true},
		{Name: "mean_reward", Right: true, As: output.Number},
		{Name: "avg_reward", Right: true, As: output.Number, Wide: true},
		{Name: "accuracy", Right: true, As: output.Number},
		{Name: "complete"},
		{Name: "attempt", Right: true, Wide: true},
		{Name: "at", Path: "ts", As: output.Time},
	}
}
