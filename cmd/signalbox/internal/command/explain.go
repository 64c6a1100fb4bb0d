package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/apidoc"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
)

func (t *tool) explain() *cobra.Command {
	return &cobra.Command{
		Use: "explain [OBJECT[.MEMBER]...]", GroupID: groupTool, Short: "Describe an object of the API and its members",
		Long:    "Describe an object of the API, or a member of one, from the description that the installation serves. Without an argument, list the objects.",
		Example: "signalbox explain job\nsignalbox explain jobspec.resources.pools\nsignalbox explain job -o json",
		Args:    arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.Anonymous()
			if err != nil {
				return err
			}
			resp, err := c.Call(cmd.Context(), http.MethodGet, "/api/openapi.json", nil)
			if err != nil {
				return err
			}
			if resp.Status != http.StatusOK {
				return resp.Err()
			}
			doc, err := apidoc.Parse(resp.Body)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return t.printKinds(doc)
			}
			e, err := doc.Explain(args[0])
			if unknown, ok := errors.AsType[*apidoc.UnknownError](err); ok {
				return &NotFoundError{unknown.Error()}
			}
			if err != nil {
				return err
			}
			return t.printExplanation(e)
		},
	}
}

func (t *tool) printKinds(doc *apidoc.Document) error {
	var rows []json.RawMessage
	for _, name := range doc.Kinds() {
		e, err := doc.Explain(name)
		if err != nil {
			return err
		}
		raw, err := json.Marshal(map[string]any{"name": name, "description": e.Description})
		if err != nil {
			return fmt.Errorf("print the objects: %w", err)
		}
		rows = append(rows, raw)
	}
	p, err := t.Printer()
	if err != nil {
		return err
	}
	return p.Rows([]output.Column{{Name: "name"}, {Name: "description"}}, rows)
}

func (t *tool) printExplanation(e apidoc.Explanation) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("print the explanation: %w", err)
	}
	p, err := t.Printer()
	if err != nil {
		return err
	}
	if !p.ForPeople() {
		return p.Object(nil, raw)
	}
	width := defaultWidth
	if p.Width > 0 {
		width = min(p.Width, maxText)
	}
	fmt.Fprintf(t.Out, "%s: %s\n", e.Path, e.Type)
	t.paragraph(e.Description, "", width)
	for _, f := range e.Fields {
		required := ""
		if f.Required {
			required = ", required"
		}
		fmt.Fprintf(t.Out, "\n  %s: %s%s\n", f.Name, f.Type, required)
		t.paragraph(f.Description, "      ", width)
	}
	return nil
}

const (
	// defaultWidth is that of a text outside of a terminal, and maxText the maximum on one, in characters.
	defaultWidth = 100
	maxText      = 120
)

// paragraph prints a text, wrapped at spaces, with each line indented.
func (t *tool) paragraph(description, indent string, width int) {
	if description == "" {
		return
	}
	for line := range strings.SplitSeq(text.WrapSoft(output.Printable(description), max(width-len(indent), len(indent)+1)), "\n") {
		fmt.Fprintln(t.Out, strings.TrimRight(indent+strings.TrimSpace(line), " "))
	}
}
