package command

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/signalbox-dev/signalbox/internal/client"
)

// mostTried is the maximum number of models whose newest version init looks at.
const mostTried = 20

// named is a row of a list of datasets or models.
type named[V any] struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Project string `json:"project"`
	Format  string `json:"format"`
	Latest  V      `json:"latest_version"`
}

// findInputs returns a reference for each required input of a recipe: the newest dataset or model in its format. Inputs for
// which nothing was found are missing in the result.
func (t *tool) findInputs(ctx context.Context, c *client.Client, inputs []recipeInput, project string) (map[string]string, error) {
	query := url.Values{"limit": {"200"}}
	if project != "" {
		query.Set("project", project)
	}
	found := map[string]string{}
	for _, in := range inputs {
		if !in.Required {
			continue
		}
		find := findDataset
		if in.Kind == "model" {
			find = findModel
		}
		ref, err := find(ctx, c, in.Format, query)
		if err != nil {
			return nil, err
		}
		if ref != "" {
			found[in.Name] = ref
		}
	}
	return found, nil
}

// findDataset returns the reference of the newest dataset in a format, or "".
func findDataset(ctx context.Context, c *client.Client, format string, query url.Values) (string, error) {
	var datasets []named[string]
	if err := c.Get(ctx, datasetKind().path, query, &datasets); err != nil {
		return "", err
	}
	for _, d := range datasets {
		if d.Latest != "" && (format == "" || d.Format == format) {
			return fmt.Sprintf("ds/%s/%s@%s", d.Project, d.Name, d.Latest), nil
		}
	}
	return "", nil
}

// findModel returns the reference of the newest version of the newest model whose version is in a format, or "".
func findModel(ctx context.Context, c *client.Client, format string, query url.Values) (string, error) {
	var models []named[int]
	if err := c.Get(ctx, modelKind().path, query, &models); err != nil {
		return "", err
	}
	tried := 0
	for _, m := range models {
		if m.Latest == 0 || tried == mostTried {
			continue
		}
		tried++
		var v named[int]
		if err := c.Get(ctx, modelKind().at(m.ID, "versions", strconv.Itoa(m.Latest)), nil, &v); err != nil {
			return "", err
		}
		if format == "" || v.Format == format {
			return fmt.Sprintf("mdl/%s/%s@%d", m.Project, m.Name, m.Latest), nil
		}
	}
	return "", nil
}
