package command

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
)

// routes lists the routes of the installation, from its OpenAPI document.
func (t *tool) routes() *cobra.Command {
	return &cobra.Command{
		Use: "routes [TEXT]", Short: "List the routes of the API, or those that contain a text", Args: arguments(0, 1),
		Example: "signalbox api routes deployments",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.Anonymous()
			if err != nil {
				return err
			}
			var doc struct {
				Paths map[string]map[string]json.RawMessage `json:"paths"`
			}
			if err := c.Get(cmd.Context(), "/api/openapi.json", nil, &doc); err != nil {
				return err
			}
			var rows []json.RawMessage
			for _, path := range sortedKeys(doc.Paths) {
				if len(args) > 0 && !strings.Contains(path, args[0]) {
					continue
				}
				for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
					operation, ok := doc.Paths[path][strings.ToLower(method)]
					if !ok {
						continue
					}
					var o struct{ Summary string }
					if err := json.Unmarshal(operation, &o); err != nil {
						return fmt.Errorf("decode the OpenAPI document: %w", err)
					}
					row, err := json.Marshal(map[string]string{"method": method, "path": path, "summary": o.Summary})
					if err != nil {
						return fmt.Errorf("print a route: %w", err)
					}
					rows = append(rows, row)
				}
			}
			p, err := t.Printer()
			if err != nil {
				return err
			}
			if len(rows) == 0 && len(args) > 0 {
				return &NotFoundError{fmt.Sprintf("no route contains %q", args[0])}
			}
			return p.Rows([]output.Column{{Name: "method"}, {Name: "path"}, {Name: "summary"}}, rows)
		},
	}
}
