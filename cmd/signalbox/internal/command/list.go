package command

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

const (
	// completionTimeout is how long the shell waits for names from the server.
	completionTimeout = time.Second
	// defaultRows is how many rows a list has without --limit.
	defaultRows = 50
	// everything is the limit of --limit 0.
	everything = 1_000_000
)

// filter is a flag that selects rows of a list by a parameter of its route.
type filter struct {
	flag, param, usage string
	// many states that the flag can be repeated, or have several values with commas between them.
	many bool
	// when states that the value is a time: RFC 3339, or a duration that counts back from now.
	when bool
	// values are what completion offers, and the only ones that exist.
	values []string
	// user states that the value is the name of a user, or me.
	user bool
}

// filterFlags are the values of the filters of a list.
type filterFlags struct {
	filters []filter
	texts   map[string]*[]string
	set     *pflag.FlagSet
}

func addFilters(f *pflag.FlagSet, cmd *cobra.Command, filters []filter) *filterFlags {
	out := &filterFlags{filters: filters, texts: map[string]*[]string{}, set: f}
	for _, x := range filters {
		values := new([]string)
		out.texts[x.flag] = values
		f.StringSliceVar(values, x.flag, nil, x.usage)
		if x.values != nil {
			must(cmd.RegisterFlagCompletionFunc(x.flag, cobra.FixedCompletions(x.values, cobra.ShellCompDirectiveNoFileComp)))
		}
	}
	return out
}

// query adds the values of the filters to a query.
func (f *filterFlags) query(into url.Values, now time.Time) error {
	for _, x := range f.filters {
		values := *f.texts[x.flag]
		if len(values) == 0 {
			if f.set.Changed(x.flag) {
				return session.Usage("--%s must not be empty; an unset variable?", x.flag)
			}
			continue
		}
		if len(values) > 1 && !x.many {
			return session.Usage("--%s can be given once", x.flag)
		}
		for i, v := range values {
			if strings.TrimSpace(v) == "" {
				return session.Usage("--%s must not be empty; an unset variable?", x.flag)
			}
			if x.values != nil {
				if err := oneOf(x.flag, v, x.values); err != nil {
					return err
				}
			}
			if x.when {
				at, err := moment(v, now)
				if err != nil {
					return session.Usage("--%s: %s", x.flag, err)
				}
				values[i] = at.Format(time.RFC3339Nano)
			}
		}
		into[x.param] = values
	}
	return nil
}

// oneOf checks the value of a flag that has only certain values.
func oneOf(flag, value string, values []string) error {
	if slices.Contains(values, value) {
		return nil
	}
	return session.Usage("--%s %q does not exist; use one of %s", flag, value, strings.Join(values, ", "))
}

// whoMe replaces the user "me" in the query of a list by the name of the user, which the server wants.
func (f *filterFlags) whoMe(ctx context.Context, c *client.Client, query url.Values) error {
	for _, x := range f.filters {
		if !x.user || query.Get(x.param) != "me" {
			continue
		}
		who, err := whoIs(ctx, c)
		if err != nil {
			return err
		}
		query.Set(x.param, who.Username)
	}
	return nil
}

// moment returns the time that a user means: a time in RFC 3339, a date, or a duration such as 90m or 7d before now.
func moment(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 {
			return now.Add(-time.Duration(n * float64(24*time.Hour))), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, session.Usage("%q is not a time; use 2026-01-31T10:00:00Z, 2026-01-31, or a duration before now such as 90m or 7d", text)
}

// now returns the time in the time zone of the user.
func (t *tool) now() time.Time { return t.Clock.Now().In(t.Zone) }

// list returns the command ls of a kind.
func (t *tool) list(k kind, short, example string, filters ...filter) *cobra.Command {
	var limit int
	var watch bool
	var flags *filterFlags
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: short, Example: example, Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query, err := t.listQuery(k, flags)
			if err != nil {
				return err
			}
			c, err := t.Client()
			if err != nil {
				return err
			}
			if err := flags.whoMe(cmd.Context(), c, query); err != nil {
				return err
			}
			if watch {
				return t.watchList(cmd, c, k, k.path, query, limit)
			}
			return t.printList(cmd, c, k, k.path, query, limit)
		},
	}
	addLimit(cmd, &limit)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "print the list again when it changes, until Ctrl-C")
	flags = addFilters(cmd.Flags(), cmd, filters)
	return cmd
}

func addLimit(cmd *cobra.Command, limit *int) {
	cmd.Flags().IntVar(limit, "limit", defaultRows, "maximum number of rows; 0 lists all")
}

// listQuery returns the query of the list of a kind.
func (t *tool) listQuery(k kind, flags *filterFlags) (url.Values, error) {
	query := maps.Clone(k.query)
	if query == nil {
		query = url.Values{}
	}
	if k.inProject {
		chosen, err := t.Settings()
		if err != nil {
			return nil, err
		}
		if chosen.Project != "" {
			query.Set("project", chosen.Project)
		}
	}
	return query, flags.query(query, t.now())
}

// printList reads a list and prints it. If rows are left out, it states so on standard error.
func (t *tool) printList(cmd *cobra.Command, c *client.Client, k kind, path string, query url.Values, limit int) error {
	p, err := t.Printer()
	if err != nil {
		return err
	}
	if limit < 0 {
		return session.Usage("--limit must be a number of rows, or 0 for all")
	}
	if limit == 0 {
		limit = everything
	}
	if p.Format == output.Lines && (p.Filter == nil || p.FilterRows) {
		printed := 0
		total, more, err := c.Each(cmd.Context(), path, query, limit, func(row json.RawMessage) error {
			printed++
			return p.Row(k.columns, row)
		})
		if err == nil {
			t.leftOut(k, more, printed, limit, total)
		}
		return err
	}
	list, err := c.List(cmd.Context(), path, query, limit)
	if err != nil {
		return err
	}
	if len(list.Rows) == 0 && p.ForPeople() {
		t.sayNone(k, query)
		return nil
	}
	if err := p.Rows(k.columns, list.Rows); err != nil {
		return err
	}
	if k.note != nil && p.ForPeople() {
		if line := k.note(list.Rows); line != "" {
			t.Say("%s", line)
		}
	}
	t.leftOut(k, list.More, len(list.Rows), limit, list.Total)
	return nil
}

// sayNone states that a list is empty, and by which filters, because a misspelled one matches nothing.
func (t *tool) sayNone(k kind, query url.Values) {
	var selected []string
	for _, name := range sortedKeys(query) {
		if !slices.Equal(query[name], k.query[name]) {
			selected = append(selected, name+"="+strings.Join(query[name], ","))
		}
	}
	if len(selected) == 0 {
		t.Say("no %s", k.many)
		return
	}
	t.Say("no %s with %s", k.many, output.Printable(strings.Join(selected, " ")))
}

// rows prints rows. Instead of a table without any, it states so on standard error.
func (t *tool) rows(p *output.Printer, many string, columns []output.Column, rows []json.RawMessage) error {
	if len(rows) == 0 && p.ForPeople() {
		t.Say("no %s", many)
		return nil
	}
	return p.Rows(columns, rows)
}

// leftOut states that a list has more rows than were printed.
func (t *tool) leftOut(k kind, more bool, printed, limit, total int) {
	remedy := "--limit 0 lists all"
	if limit == everything {
		remedy = "the server lists no more, so select some"
	}
	switch {
	case !more:
	case total > printed:
		t.Say("%d of %d %s; %s", printed, total, k.many, remedy)
	default:
		t.Say("more %s than these %d; %s", k.many, printed, remedy)
	}
}

// get returns the command get of a kind.
func (t *tool) get(k kind, short, example string) *cobra.Command {
	return &cobra.Command{
		Use: "get " + upper(k), Aliases: []string{"show", "describe"}, Short: short, Example: example,
		Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			return t.printObject(cmd, c, k.all(), k.at(id))
		},
	}
}

// all returns the columns for one object.
func (k kind) all() []output.Column { return slices.Concat(k.columns, k.details) }

// object returns a client and the id of the object that the user calls by its name or id.
func (t *tool) object(cmd *cobra.Command, k kind, called string) (*client.Client, string, error) {
	c, err := t.Client()
	if err != nil {
		return nil, "", err
	}
	id, err := t.id(cmd.Context(), c, k, called)
	return c, id, err
}

// objects returns a client and the ids of objects. None is changed if one of them does not exist.
func (t *tool) objects(cmd *cobra.Command, k kind, called []string) (*client.Client, []string, error) {
	c, err := t.Client()
	if err != nil {
		return nil, nil, err
	}
	ids := make([]string, len(called))
	for i, name := range called {
		if ids[i], err = t.id(cmd.Context(), c, k, name); err != nil {
			return nil, nil, err
		}
	}
	return c, ids, nil
}

// printObject reads one object and prints it.
func (t *tool) printObject(cmd *cobra.Command, c *client.Client, columns []output.Column, path string) error {
	var raw json.RawMessage
	if err := c.Get(cmd.Context(), path, nil, &raw); err != nil {
		return err
	}
	return t.print(columns, raw)
}

// print prints one object.
func (t *tool) print(columns []output.Column, raw json.RawMessage) error {
	p, err := t.Printer()
	if err != nil {
		return err
	}
	return p.Object(columns, raw)
}
