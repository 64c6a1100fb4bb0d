package command

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

const (
	// maxCandidates bounds the list in which a name is searched.
	maxCandidates = 2000
	// maxNamed bounds the ids that an error lists.
	maxNamed = 5
)

// id returns the id of an object that the user calls by its id or, if only one object has it, by its name. A name with
// a project in front, project/name, selects among projects. The error is a NotFoundError if no object has the name.
func (t *tool) id(ctx context.Context, c *client.Client, k kind, called string) (string, error) {
	if called == "" {
		return "", session.Usage("the name of the %s is empty; an unset variable?", k.one)
	}
	if isID(k.prefix, called) {
		return called, nil
	}
	found, err := t.named(ctx, c, k, called)
	if err != nil {
		return "", err
	}
	switch len(found) {
	case 1:
		return found[0].id, nil
	case 0:
		return "", &NotFoundError{fmt.Sprintf("no %s is called %q; %s lists those that you may see", k.one, called, k.listedBy())}
	}
	return "", k.ambiguous(called, found)
}

// newest is like id, but of several objects with the name it returns the newest one, and names it to the user. It is for commands that
// change nothing, and for kinds whose lists begin with the newest object.
func (t *tool) newest(ctx context.Context, c *client.Client, k kind, called string) (string, error) {
	if called == "" || isID(k.prefix, called) {
		return t.id(ctx, c, k, called)
	}
	found, err := t.named(ctx, c, k, called)
	if err != nil || len(found) < 2 {
		return t.id(ctx, c, k, called)
	}
	t.Say("%d %s are called %q; this is the newest, %s (%s)", len(found), k.many, called, found[0].id, found[0].where())
	return found[0].id, nil
}

// ambiguous returns the error for a name that several objects have.
func (k kind) ambiguous(called string, found []candidate) error {
	texts := make([]string, 0, maxNamed)
	for _, f := range found[:min(len(found), maxNamed)] {
		texts = append(texts, f.id+" ("+f.where()+")")
	}
	more := ""
	if len(found) > maxNamed {
		more = ", …"
	}
	return session.Usage("%d %s are called %q; use an id: %s%s", len(found), k.many, called, strings.Join(texts, ", "), more)
}

// isID reports whether a text has the form of the ids with a prefix: the prefix and 26 letters and digits.
func isID(prefix, text string) bool {
	const length = 26
	rest, ok := strings.CutPrefix(text, prefix)
	if prefix == "" || !ok || len(rest) != length {
		return false
	}
	return strings.Trim(rest, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// candidate is an object with a name.
type candidate struct{ id, name, project, state string }

func (c candidate) where() string {
	if c.state != "" {
		return c.project + ", " + c.state
	}
	return c.project
}

// named returns the objects that have a name.
func (t *tool) named(ctx context.Context, c *client.Client, k kind, called string) ([]candidate, error) {
	project, name := k.split(called)
	query := t.nameQuery(k, project)
	if k.search != "" {
		query.Set(k.search, name)
	}
	list, err := c.List(ctx, k.path, query, maxCandidates)
	if err != nil {
		return nil, err
	}
	var out []candidate
	for _, row := range list.Rows {
		if candidate, ok := k.candidate(row); ok && candidate.name == name {
			out = append(out, candidate)
		}
	}
	if len(out) == 0 && list.More {
		return nil, session.Usage("more than %d %s match %q; use an id", maxCandidates, k.many, called)
	}
	return out, nil
}

// split returns the project and the name of what the user calls project/name.
func (k kind) split(called string) (project, name string) {
	if before, after, ok := strings.Cut(called, "/"); ok && k.inProject {
		return before, after
	}
	return "", called
}

// nameQuery returns the query of a list in which a name is searched: in the given project, or in that of the command.
func (t *tool) nameQuery(k kind, project string) url.Values {
	query := url.Values{}
	maps.Copy(query, k.query)
	maps.Copy(query, k.names)
	if !k.inProject {
		return query
	}
	if project == "" {
		if chosen, err := t.Settings(); err == nil {
			project = chosen.Project
		}
	}
	if project != "" {
		query.Set("project", project)
	}
	return query
}

func (k kind) candidate(row json.RawMessage) (candidate, bool) {
	var members map[string]any
	if json.Unmarshal(row, &members) != nil {
		return candidate{}, false
	}
	text := func(member string) string {
		value, _ := members[member].(string)
		return value
	}
	c := candidate{id: text("id"), name: text(k.name), project: text("project"), state: text("state")}
	if c.id == "" {
		c.id = c.name
	}
	return c, c.id != ""
}

// maxCompleted bounds the names that are offered for completion.
const maxCompleted = 100

// complete offers the names and ids of the objects of a kind for the first argument. Names that several objects have are
// left out, because a command does not accept them.
func (t *tool) complete(k kind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		c, err := t.Client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		project, name := k.split(typed)
		query := t.nameQuery(k, project)
		if k.search != "" && name != "" && !strings.HasPrefix(name, k.prefix) {
			query.Set(k.search, name)
		}
		list, err := c.List(ctx, k.path, query, maxCompleted)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		before := typed[:len(typed)-len(name)]
		count := map[string]int{}
		var rows []candidate
		for _, row := range list.Rows {
			if found, ok := k.candidate(row); ok {
				rows = append(rows, found)
				count[found.name]++
			}
		}
		var out []cobra.Completion
		for _, r := range rows {
			if strings.HasPrefix(r.name, name) && count[r.name] == 1 {
				out = append(out, cobra.CompletionWithDesc(before+r.name, r.where()))
			}
			if typed != "" && strings.HasPrefix(r.id, typed) && r.id != r.name {
				out = append(out, cobra.CompletionWithDesc(r.id, r.name))
			}
		}
		slices.Sort(out)
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag offers the names of the objects of a kind for the value of a flag.
func (t *tool) completeFlag(k kind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return t.complete(k)(cmd, nil, typed)
	}
}

// sourceOf returns a client, and the id of the job or run that has reported something.
func (t *tool) sourceOf(cmd *cobra.Command, called string) (*client.Client, string, error) {
	c, err := t.Client()
	if err != nil {
		return nil, "", err
	}
	id, err := t.source(cmd.Context(), c, called)
	return c, id, err
}
