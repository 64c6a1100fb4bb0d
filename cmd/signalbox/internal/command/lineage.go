package command

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/internal/client"
)

// lineageGraph is a response of the lineage routes.
type lineageGraph struct {
	Nodes []lineageNode `json:"nodes"`
	Edges []struct {
		Source   string  `json:"source"`
		Target   string  `json:"target"`
		Relation string  `json:"relation"`
		Detail   *string `json:"detail"`
	} `json:"edges"`
	More bool `json:"more"`
}

type lineageNode struct {
	Key     string  `json:"key"`
	Kind    string  `json:"kind"`
	ID      *string `json:"id"`
	Name    *string `json:"name"`
	Version *string `json:"version"`
}

// text returns a node as people write it: dataset sums v1 (ds_…).
func (n lineageNode) text() string {
	if n.ID == nil {
		return n.Kind + " (not visible)"
	}
	parts := []string{n.Kind}
	for _, part := range []*string{n.Name, n.Version} {
		if part != nil {
			parts = append(parts, *part)
		}
	}
	return strings.Join(parts, " ") + " (" + *n.ID + ")"
}

// printLineage prints the edges of a graph, or with another format the graph itself.
func (t *tool) printLineage(cmd *cobra.Command, c *client.Client, path, direction string, depth int) error {
	p, err := t.Printer()
	if err != nil {
		return err
	}
	var raw json.RawMessage
	query := url.Values{"direction": {direction}, "depth": {strconv.Itoa(depth)}}
	if err := c.Get(cmd.Context(), path, query, &raw); err != nil {
		return err
	}
	if !p.ForPeople() {
		return p.Object(nil, raw)
	}
	var g lineageGraph
	if err := json.Unmarshal(raw, &g); err != nil {
		return fmt.Errorf("decode the lineage: %w", err)
	}
	names := map[string]string{}
	for _, n := range g.Nodes {
		names[n.Key] = n.text()
	}
	var rows []json.RawMessage
	for _, e := range g.Edges {
		row, err := json.Marshal(map[string]any{"from": names[e.Source], "relation": e.Relation, "to": names[e.Target], "detail": e.Detail})
		if err != nil {
			return fmt.Errorf("print the lineage: %w", err)
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		t.Say("nothing is known of what it was made from or what was made from it")
		return nil
	}
	if err := p.Rows(lineageColumns(), rows); err != nil {
		return err
	}
	if g.More {
		t.Say("the graph continues; use a higher --depth, or the lineage of one of these")
	}
	return nil
}
