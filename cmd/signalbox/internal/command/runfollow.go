package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/logview"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/ownjob"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/packager"
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

// awaitPlace waits until a job has a place: until it is not queued any more, and no Slurm cluster holds it. It states why the job waits.
func (t *tool) awaitPlace(ctx context.Context, c *client.Client, job ownJob) error {
	const first, longest = 200 * time.Millisecond, 5 * time.Second
	stated, state := "", ""
	for pause := first; ; pause = min(2*pause, longest) {
		var now struct {
			State string `json:"state"`
			Queue *struct {
				Reason string `json:"reason"`
				Detail string `json:"reason_detail"`
			} `json:"queue"`
		}
		err := t.Watcher(c).Retry(ctx, func() error { return c.Get(ctx, jobKind().at(job.ID), nil, &now) })
		if err != nil || now.State != "queued" && now.State != "scheduled" {
			return err
		}
		if now.Queue != nil && (now.Queue.Detail != "" || heldBySlurm(now.Queue.Reason)) {
			why := now.Queue.Detail
			if heldBySlurm(now.Queue.Reason) {
				why = whyWaits(now.Queue.Reason, now.Queue.Detail)
			}
			if why != stated {
				stated = why
				t.Say("job %s waits: %s", job.Name, stated)
			}
		}
		if now.State != state {
			state, pause = now.State, first // a job that was placed usually starts soon
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

// outputBefore returns the name of the file of --output as far as it is known before the job has an id, or "" if there is none.
func outputBefore(r ownjob.Request, user string) string {
	if r.Script == nil || r.Script.Output == "" {
		return ""
	}
	name := ""
	if spec, err := ownjob.Spec(r); err == nil {
		name, _ = spec["name"].(string)
	}
	return sbatch.OutputPath(r.Script.Output, "%j", name, user)
}

// isLog reports whether a file has the name of a log, such as that of an earlier run, which may be replaced.
func isLog(file string) bool {
	end := filepath.Ext(file)
	return end == ".log" || end == ".out"
}

// checkOutput refuses a file for --output that is not below the working folder, or that cannot be written. It creates nothing, so that a
// refused job leaves nothing behind.
func (o runOptions) checkOutput(r ownjob.Request) error {
	name := outputBefore(r, "%u")
	if name == "" || o.detach {
		return nil
	}
	_, here := inFolder(".", name)
	_, inCode := inFolder(o.folder, name)
	if !here && !inCode || !filepath.IsAbs(name) && !filepath.IsLocal(name) {
		return outputProblem(r, "is not below the working folder; write a path below the working folder")
	}
	if strings.HasSuffix(name, "/") {
		return outputProblem(r, "is a folder; add the name of a file")
	}
	if err := writable(name); err != nil {
		return outputProblem(r, "cannot be written: "+err.Error()+"; write another path")
	}
	return nil
}

func outputProblem(r ownjob.Request, problem string) error {
	one := sbatch.Refusal{Line: r.Script.OutputLine, Name: "--output=" + r.Script.Output, Problem: problem}
	return scriptProblem(&ownjob.ScriptError{File: r.ScriptPath, Err: sbatch.RefusedErrors{one}})
}

// writable returns why a file, or the nearest folder above it that exists, cannot be written.
func writable(name string) error {
	switch info, err := os.Stat(name); {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", name)
	case err == nil:
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return file.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	folder := filepath.Dir(name)
	for {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) || folder == filepath.Dir(folder) {
			break
		}
		folder = filepath.Dir(folder)
	}
	file, err := os.CreateTemp(folder, ".signalbox-*")
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("create a file in %s: %w", folder, at.Err)
	}
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// resolved returns a path without symbolic links, as far as it exists.
func resolved(name string) string {
	if whole, err := filepath.Abs(name); err == nil {
		name = whole
	}
	if whole, err := filepath.EvalSymlinks(name); err == nil {
		return whole
	}
	if above, err := filepath.EvalSymlinks(filepath.Dir(name)); err == nil {
		return filepath.Join(above, filepath.Base(name))
	}
	return name
}

// keepsSent refuses a file for --output that replaces a file of the package. The name of the user is not known yet, so that it can be any.
func (o runOptions) keepsSent(r ownjob.Request, sent *packager.Listing) error {
	name := outputBefore(r, "*")
	if name == "" || o.detach {
		return nil
	}
	inside, ok := inFolder(resolved(o.folder), resolved(name))
	if !ok || isLog(inside) {
		return nil
	}
	pattern := strings.NewReplacer(`\`, `\\`, "[", `\[`, "?", `\?`).Replace(filepath.ToSlash(inside))
	for _, file := range sent.Files {
		if same, err := path.Match(pattern, file.Path); err == nil && same && file.Excluded == "" {
			return outputProblem(r, fmt.Sprintf("would replace %s, a file that is sent; write another name, such as one that ends in .log, or exclude the "+
				"file in %s", file.Path, packager.OwnIgnoreFile))
		}
	}
	return nil
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
