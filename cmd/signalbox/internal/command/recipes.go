package command

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
)

func recipeKind() kind {
	return kind{one: "recipe", many: "recipes", path: "/api/recipes", name: "name", columns: []output.Column{
		{Name: "name"},
		{Name: "version"},
		{Name: "title"},
		{Name: "state"},
		{Name: "project"},
		{Name: "owner", Wide: true},
		{Name: "resumable"},
		{Name: "trusted", Wide: true},
		{Name: "digest", As: output.Short, Wide: true},
	}}
}

func (t *tool) recipes() *cobra.Command {
	k := recipeKind()
	get := &cobra.Command{
		Use: "get RECIPE[@VERSION]", Aliases: []string{"show"}, Short: "Show a recipe: its parameters and inputs", Args: arguments(1, 1),
		Example: "signalbox recipes get demo/chat-tiny\nsignalbox recipes get sft/lora@1.0.0 -o yaml", ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := t.recipe(cmd, args[0])
			if err != nil {
				return err
			}
			return t.printRecipe(raw)
		},
	}
	return noun("recipes", groupWork, "Recipes: what jobs can do", "signalbox recipes ls\nsignalbox recipes get demo/chat-tiny\nsignalbox recipes lock job.yaml",
		[]string{"recipe"}, t.list(k, "List recipes", "signalbox recipes ls\nsignalbox recipes ls --of my-project",
			filter{flag: "of", param: "project", usage: "only recipes that this project has published"}), get, t.pullRecipe(), t.publishRecipe(), t.updateRecipe(), t.lockCommand())
}

// recipePath returns the path of a recipe.
func recipePath(name string) (string, error) {
	namespace, short, ok := strings.Cut(name, "/")
	if !ok {
		return "", session.Usage("%q is not a recipe; write its namespace too, such as custom/custom", name)
	}
	return recipeKind().path + "/" + url.PathEscape(namespace) + "/" + url.PathEscape(short), nil
}

// recipe reads a version of a recipe, NAME@VERSION, or the newest one of NAME.
func (t *tool) recipe(cmd *cobra.Command, called string) (json.RawMessage, error) {
	c, err := t.Client()
	if err != nil {
		return nil, err
	}
	name, version, chosen := strings.Cut(called, "@")
	path, err := recipePath(name)
	if err != nil {
		return nil, err
	}
	if chosen && version == "" {
		return nil, session.Usage("the version is missing; write %s@VERSION", name)
	}
	if chosen {
		path += "/versions/" + url.PathEscape(version)
	}
	var raw json.RawMessage
	err = c.Get(cmd.Context(), path, nil, &raw)
	return raw, err
}

// recipeParts is what a table and a job file show of a recipe.
type recipeParts struct {
	Name         string        `json:"name"`
	Version      string        `json:"version"`
	State        string        `json:"state"`
	Description  string        `json:"description"`
	Inputs       []recipeInput `json:"inputs"`
	ParamsSchema struct {
		Properties map[string]parameter `json:"properties"`
		Required   []string             `json:"required"`
	} `json:"params_schema"`
}

// recipeInput is what a job of a recipe reads.
type recipeInput struct {
	Name        string `json:"name"`
	Kind        string `json:"kind"`
	Required    bool   `json:"required"`
	Format      string `json:"format"`
	Description string `json:"description"`
}

// parameter is the schema of a hyperparameter.
type parameter struct {
	Type        any             `json:"type"`
	Default     json.RawMessage `json:"default"`
	Minimum     json.Number     `json:"minimum"`
	Maximum     json.Number     `json:"maximum"`
	Enum        []any           `json:"enum"`
	Description string          `json:"description"`
}

// allowed returns the values that a parameter can have, as people write it.
func (p parameter) allowed() string {
	switch {
	case len(p.Enum) > 0:
		return output.Text(p.Enum, time.Time{})
	case p.Minimum != "" && p.Maximum != "":
		return p.Minimum.String() + " to " + p.Maximum.String()
	case p.Minimum != "":
		return "at least " + p.Minimum.String()
	case p.Maximum != "":
		return "at most " + p.Maximum.String()
	}
	return ""
}

// printRecipe prints a recipe; as a table, its inputs and parameters have tables of their own.
func (t *tool) printRecipe(raw json.RawMessage) error {
	p, err := t.Printer()
	if err != nil {
		return err
	}
	if !p.ForPeople() || len(p.Columns) > 0 {
		return p.Object(recipeKind().columns, raw)
	}
	var parts recipeParts
	if err := json.Unmarshal(raw, &parts); err != nil {
		return fmt.Errorf("decode the recipe: %w", err)
	}
	if err := p.Object(append(recipeKind().columns, output.Column{Name: "charts"}), raw); err != nil {
		return err
	}
	if parts.Description != "" {
		fmt.Fprintf(t.Out, "\n%s\n", output.Printable(parts.Description))
	}
	fmt.Fprint(t.Out, "\nINPUTS\n")
	rows, err := rowsOf(parts.Inputs)
	if err != nil {
		return err
	}
	if err := p.Rows([]output.Column{{Name: "name"}, {Name: "kind"}, {Name: "required"}, {Name: "format"}, {Name: "description"}}, rows); err != nil {
		return err
	}
	rows = nil
	for _, name := range sortedKeys(parts.ParamsSchema.Properties) {
		param := parts.ParamsSchema.Properties[name]
		row, err := json.Marshal(map[string]any{
			"name": name, "type": param.Type, "default": param.Default, "values": param.allowed(), "description": param.Description,
		})
		if err != nil {
			return fmt.Errorf("print a parameter: %w", err)
		}
		rows = append(rows, row)
	}
	fmt.Fprint(t.Out, "\nPARAMETERS\n")
	return p.Rows([]output.Column{{Name: "name"}, {Name: "type"}, {Name: "default", As: compactText}, {Name: "values"}, {Name: "description"}}, rows)
}

// rowsOf returns values as the rows of a table.
func rowsOf[T any](values []T) ([]json.RawMessage, error) {
	rows := make([]json.RawMessage, len(values))
	for i, v := range values {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("print a row: %w", err)
		}
		rows[i] = raw
	}
	return rows, nil
}
