package command

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
)

// logOptions are the flags of the command logs.
type logOptions struct {
	follow, labels, ignoreCase bool
	tail                       int
	grep, level, node          string
	since, until               string
	rank, attempt              int
	around                     int
}

func (t *tool) logsAlias() *cobra.Command {
	cmd := t.logs("signalbox logs")
	cmd.GroupID = groupWork
	return cmd
}

// logs returns the command that prints the log of a job or run. Its examples call it by the given name.
func (t *tool) logs(name string) *cobra.Command {
	var o logOptions
	cmd := &cobra.Command{
		Use: "logs JOB|RUN", Short: "Print the log of a job or run, and follow it",
		Long: `Print the log of a job or run.

Without filters, it is the whole log, or its last lines with --tail. With --follow, new lines are printed until the run has ended; a restart of
the server neither loses nor repeats a line. --grep takes a regular expression in the RE2 syntax.`,
		Example: strings.Join([]string{
			name + " my-job --tail 20",
			name + " my-job --follow --grep 'loss|error'",
			name + " my-job --since 10m --rank 0 --level warning",
		}, "\n"),
		Args: arguments(1, 1), ValidArgsFunction: t.complete(jobKind()),
		RunE: func(cmd *cobra.Command, args []string) error { return t.runLogs(cmd, args[0], o) },
	}
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "print new lines until the run has ended")
	f.IntVarP(&o.tail, "tail", "n", -1, "only the last lines, this many")
	f.StringVarP(&o.grep, "grep", "g", "", "only lines that match this regular expression")
	f.BoolVarP(&o.ignoreCase, "ignore-case", "i", false, "let --grep ignore upper and lower case")
	f.StringVar(&o.level, "level", "", "only lines of this level and above, such as warning")
	f.StringVar(&o.node, "node", "", "only lines from this node")
	f.StringVar(&o.since, "since", "", "only lines from this time on, such as 10m or 2026-01-31T10:00:00Z")
	f.StringVar(&o.until, "until", "", "only lines up to this time")
	f.IntVar(&o.rank, "rank", -1, "only lines of the process with this rank")
	f.IntVar(&o.attempt, "attempt", -1, "only lines of this attempt")
	f.IntVarP(&o.around, "around", "C", 0, "also print this many lines around each match, at most 20")
	f.BoolVarP(&o.labels, "timestamps", "t", false, "print the number, the time and the rank before each line")
	return cmd
}

// filtered reports whether the options select lines.
func (o logOptions) filtered() bool {
	return o.grep != "" || o.level != "" || o.node != "" || o.since != "" || o.until != "" || o.rank >= 0 || o.attempt >= 0
}

// check refuses flags that would have no effect, and negative numbers.
func (o logOptions) check(cmd *cobra.Command) error {
	for _, flag := range []string{"tail", "rank", "attempt"} {
		if n, err := cmd.Flags().GetInt(flag); err == nil && n < 0 && cmd.Flags().Changed(flag) {
			return session.Usage("--%s must not be negative", flag)
		}
	}
	if o.grep == "" && (o.ignoreCase || o.around > 0) {
		return session.Usage("--ignore-case and --around need --grep")
	}
	return nil
}

// query returns the parameters of a search.
func (o logOptions) query(now time.Time) (url.Values, error) {
	q := url.Values{}
	for name, value := range map[string]string{"pattern": o.grep, "level": o.level, "node": o.node} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, value := range map[string]string{"since": o.since, "until": o.until} {
		if value == "" {
			continue
		}
		at, err := moment(value, now)
		if err != nil {
			return nil, session.Usage("--%s: %s", name, err)
		}
		q.Set(name, at.Format(time.RFC3339Nano))
	}
	for name, value := range map[string]int{"rank": o.rank, "attempt": o.attempt} {
		if value >= 0 {
			q.Set(name, strconv.Itoa(value))
		}
	}
	if o.ignoreCase {
		q.Set("ignore_case", "true")
	}
	if o.around > 0 {
		q.Set("context", strconv.Itoa(o.around))
	}
	return q, nil
}
