package command

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// send sends a request that changes something, and shows the response.
func (t *tool) send(cmd *cobra.Command, c *client.Client, method, path string, body any, show func(json.RawMessage) error) error {
	var raw json.RawMessage
	if err := c.Do(cmd.Context(), method, path, body, &raw); err != nil {
		return err
	}
	return show(raw)
}

// showChange returns what shows an object after a change.
func (t *tool) showChange(k kind) func(json.RawMessage) error {
	return func(raw json.RawMessage) error { return t.changed(k, raw) }
}

// showObject returns what shows an object.
func (t *tool) showObject(columns []output.Column) func(json.RawMessage) error {
	return func(raw json.RawMessage) error { return t.print(columns, raw) }
}
