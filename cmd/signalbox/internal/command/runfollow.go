package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/logview"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/ownjob"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/sbatch"
	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// ownJob is what the command run looks at of a job.
type ownJob struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	Owner     string  `json:"owner"`
	State     string  `json:"state"`
	EndReason *string `json:"end_reason"`
	Message   *string `json:"message"`
}

// followOwn prints the log of a job, and returns how its command has ended.
func (t *tool) followOwn(cmd *cobra.Command, c *client.Client, raw json.RawMessage, r ownjob.Request) error {
	var job ownJob
	if err := json.Unmarshal(raw, &job); err != nil || job.ID == "" {
		return errors.New("the server returned a job without an id")
	}
	t.Say("job %s (%s) is %s; its curves: signalbox metrics %s --plot", job.Name, job.ID, job.State, job.ID)
	t.Say("Ctrl-C stops following it, and the job continues")
	reader, err := t.newLogReader(cmd.Context(), job.ID, logOptions{tail: -1})
	if err != nil {
		return err
	}
	copied, err := t.copyLog(reader, r, job)
	if err != nil {
		t.continues(job, "")
		return err
	}
	if err = t.awaitPlace(cmd.Context(), c, job); err == nil {
		err = reader.follow(cmd.Context())
	}
	if copied != nil {
		err = errors.Join(err, copied.Close())
	}
	var last json.RawMessage
	if err == nil {
		last, _, err = t.await(cmd, c, job.ID, "")
	}
	if err != nil {
		name := ""
		if copied != nil {
			name = copied.Name()
		}
		t.continues(job, name)
		return err
	}
	return t.endOfOwn(cmd, c, last)
}

// awaitPlace waits until a job is not queued any more, and states why it waits.
func (t *tool) awaitPlace(ctx context.Context, c *client.Client, job ownJob) error {
	const first, longest = 200 * time.Millisecond, 5 * time.Second
	stated := ""
	for pause := first; ; pause = min(2*pause, longest) {
		var now struct {
			State string `json:"state"`
			Queue *struct {
				Detail string `json:"reason_detail"`
			} `json:"queue"`
		}
		err := t.Watcher(c).Retry(ctx, func() error { return c.Get(ctx, jobKind().at(job.ID), nil, &now) })
		if err != nil || now.State != "queued" {
			return err
		}
		if now.Queue != nil && now.Queue.Detail != "" && now.Queue.Detail != stated {
			stated = now.Queue.Detail
			t.Say("job %s waits: %s", job.Name, stated)
		}
		if clock.Sleep(ctx, t.Clock, pause) != nil {
			return context.Cause(ctx)
		}
	}
}

// continues states what to do with a job that is not followed any more. The name is that of the file of its log, if it has one.
func (t *tool) continues(job ownJob, file string) {
	t.Say("job %s continues; follow it with signalbox logs %s --follow, stop it with signalbox jobs stop %s", job.Name, job.ID, job.ID)
	if file != "" {
		t.Say("%s ends here; signalbox logs %s has the whole log", file, job.ID)
	}
}

// copyLog lets the reader write the log to the file that the script names with --output. The result is nil if it names none.
func (t *tool) copyLog(reader *logReader, r ownjob.Request, job ownJob) (*os.File, error) {
	if r.Script == nil || r.Script.Output == "" {
		return nil, nil
	}
	name := sbatch.OutputPath(r.Script.Output, job.ID, job.Name, job.Owner)
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return nil, fmt.Errorf("create the file of --output: %w", err)
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("create the file of --output: %w", err)
	}
	t.Say("the log is also written to %s", name)
	reader.copied = &logview.Writer{Out: file, Zone: t.Zone}
	return file, nil
}

// reasonOfCommand is the reason of the end of a job whose command ended with another status than 0.
const reasonOfCommand = "user_error"

// endOfOwn returns how a command has ended: nil for status 0, a StatusError for another one, and an EndedError if it has none.
func (t *tool) endOfOwn(cmd *cobra.Command, c *client.Client, raw json.RawMessage) error {
	var job ownJob
	if err := json.Unmarshal(raw, &job); err != nil {
		return fmt.Errorf("decode a job: %w", err)
	}
	status, err := t.exitStatus(cmd, c, job)
	if err != nil {
		return err
	}
	switch {
	case job.State == wanted("") && status > 0:
		t.Say("job %s has reported its success, but its command ended with status %d", job.Name, status)
		return &StatusError{Status: status}
	case job.State == wanted(""):
		return nil
	case status <= 0:
		return ended(job.ID, raw, wanted(""))
	}
	if job.Message != nil && (job.EndReason == nil || *job.EndReason != reasonOfCommand) {
		t.Say("job %s is %s: %s", job.Name, job.State, *job.Message)
	}
	return &StatusError{Status: status}
}

// exitStatus returns the exit status of the command in the last attempt of a job, or 0 if the job was stopped or has none.
func (t *tool) exitStatus(cmd *cobra.Command, c *client.Client, job ownJob) (int, error) {
	if job.State == "stopped" {
		return 0, nil
	}
	number, status := 0, 0
	err := t.Watcher(c).Retry(cmd.Context(), func() error {
		_, _, err := c.Each(cmd.Context(), jobKind().at(job.ID, "attempts"), nil, everyAttempt, func(row json.RawMessage) error {
			var attempt struct {
				Number   int  `json:"number"`
				ExitCode *int `json:"exit_code"`
			}
			if err := json.Unmarshal(row, &attempt); err != nil {
				return fmt.Errorf("decode an attempt: %w", err)
			}
			if attempt.Number > number {
				number, status = attempt.Number, 0
				if attempt.ExitCode != nil {
					status = *attempt.ExitCode
				}
			}
			return nil
		})
		return err
	})
	return status, err
}

// everyAttempt exceeds the number of attempts of any job.
const everyAttempt = 1 << 40
