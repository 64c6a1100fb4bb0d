package command

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// revisionPoll is the pause between two looks at a revision, which has no stream.
const revisionPoll = time.Second

// awaitRevision waits until a revision is ready. It returns an EndedError if the revision fails or is stopped.
func (t *tool) awaitRevision(cmd *cobra.Command, c *client.Client, deployment string, number int) (json.RawMessage, error) {
	var raw json.RawMessage
	var now revision
	for {
		err := t.Watcher(c).Retry(cmd.Context(), func() error {
			raw = nil
			return c.Get(cmd.Context(), deployment+"/revisions/"+strconv.Itoa(number), nil, &raw)
		})
		if err != nil {
			return nil, err
		}
		now = revision{}
		if err := json.Unmarshal(raw, &now); err != nil {
			return nil, fmt.Errorf("decode the revision: %w", err)
		}
		switch {
		case now.Ready:
			return raw, nil
		case now.State == "failed" || now.State == "stopped":
			why := ""
			if now.Reason != nil {
				why = ": " + now.Reason.Message
			}
			return nil, &EndedError{fmt.Sprintf("revision %d is %s%s", number, now.State, why)}
		}
		if err := clock.Sleep(cmd.Context(), t.Clock, revisionPoll); err != nil {
			return nil, err
		}
	}
}
