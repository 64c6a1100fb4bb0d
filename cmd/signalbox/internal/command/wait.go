package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// wait returns the command that waits for a state of a job.
func (t *tool) wait() *cobra.Command {
	k := jobKind()
	var state string
	states := append([]string{"ended"}, jobStates()...)
	cmd := &cobra.Command{
		Use: "wait JOB", Short: "Wait until a job has ended, or has another state",
		Long: `Wait until a job has ended, or until it has the state that --for names. The exit status is 9 if the job ends in another state, and without
--for also if it does not succeed.`,
		Example: "signalbox jobs wait my-job\nsignalbox jobs wait my-job --for running --timeout 10m",
		Args:    arguments(1, 1), ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			if state != "" && !slices.Contains(states, state) {
				return session.Usage("--for %q is not a state; use one of %s", state, strings.Join(states, ", "))
			}
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			raw, reached, err := t.await(cmd, c, id, state)
			if err != nil {
				return err
			}
			if err := t.changed(k, raw); err != nil {
				return err
			}
			if !reached {
				return ended(args[0], raw, wanted(state))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&state, "for", "", "state to wait for; ended for any end")
	must(cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// ended returns the error for a job that has ended, but not as it was waited for. Raw is the job as it was last seen.
func ended(called string, raw json.RawMessage, wanted string) error {
	var job struct {
		State   string  `json:"state"`
		Message *string `json:"message"`
	}
	if err := json.Unmarshal(raw, &job); err != nil {
		return fmt.Errorf("decode a job: %w", err)
	}
	why := ""
	if job.Message != nil && *job.Message != "" {
		why = ": " + *job.Message
	}
	return &EndedError{fmt.Sprintf("%s is %s, not %s%s; see signalbox logs %s and signalbox jobs events %s", called, job.State, wanted, why, called, called)}
}

func wanted(state string) string {
	if state == "" {
		return "succeeded"
	}
	return state
}

// errReached ends a stream when the job has the state.
var errReached = errors.New("the state is reached")

// seenJob is what a wait looks at.
type seenJob struct {
	State   string  `json:"state"`
	Version int64   `json:"version"`
	EndedAt *string `json:"ended_at"`
}

// await follows a job until it has a state or has ended, from the state that it has now. It returns the job as it was
// last seen.
func (t *tool) await(cmd *cobra.Command, c *client.Client, id, state string) (raw json.RawMessage, reached bool, err error) {
	path := jobKind().at(id)
	var now, job seenJob
	if err := c.Get(cmd.Context(), path, nil, &raw); err != nil {
		return nil, false, err
	}
	if err := json.Unmarshal(raw, &now); err != nil {
		return nil, false, fmt.Errorf("decode a job: %w", err)
	}
	if job = now; job.State == state || job.EndedAt != nil {
		return raw, job.State == wanted(state) || state == "ended", nil
	}
	err = t.Watcher(c).Watch(cmd.Context(), path+"/stream", "", func(e client.Event) error {
		if e.Name != "job" {
			return nil
		}
		if err := json.Unmarshal([]byte(e.Data), &job); err != nil {
			return fmt.Errorf("decode a job: %w", err)
		}
		if job.Version < now.Version {
			return nil // the stream begins with the history
		}
		raw = json.RawMessage(e.Data)
		t.Detail("job", "state", job.State)
		if job.State == state {
			return errReached
		}
		return nil
	})
	if err != nil && !errors.Is(err, errReached) {
		return nil, false, err
	}
	return raw, state == "ended" || job.State == wanted(state), nil
}
