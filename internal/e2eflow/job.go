package e2eflow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Job holds the fields of a job that the stages use.
type Job struct {
	ID        string  `json:"id"`
	RunID     string  `json:"run_id"`
	State     string  `json:"state"`
	EndReason *string `json:"end_reason"`
	Message   *string `json:"message"`
	Attempt   int     `json:"attempt"`

	ExecutorRunningAt *time.Time `json:"executor_running_at"`
	RunningAt         *time.Time `json:"running_at"`
}

// update copies the fields that can change from a newer state of the job. It does not write ID and RunID, because other
// goroutines may be reading them.
func (j *Job) update(now Job) {
	j.State, j.EndReason, j.Message, j.Attempt = now.State, now.EndReason, now.Message, now.Attempt
	j.ExecutorRunningAt, j.RunningAt = now.ExecutorRunningAt, now.RunningAt
}

// Terminal reports whether the job has ended.
func (j Job) Terminal() bool {
	return j.State == "succeeded" || j.State == "failed" || j.State == "stopped"
}

// Recipe is the name of the demo's recipe.
const Recipe = "demo/chat-tiny"

// Lock returns the recipe.lock.json of a recipe's newest version, and that version.
func (l *Loop) Lock(ctx context.Context, recipe string) (lock map[string]any, version string, err error) {
	var r struct {
		Version string `json:"version"`
	}
	if err := l.get(ctx, "/api/recipes/"+recipe, &r); err != nil {
		return nil, "", fmt.Errorf("look up the recipe: %w", err)
	}
	if err := l.get(ctx, "/api/recipes/"+recipe+"/versions/"+r.Version+"/lock", &lock); err != nil {
		return nil, "", fmt.Errorf("fetch recipe.lock.json: %w", err)
	}
	return lock, r.Version, nil
}

// Spec returns the demo's JobSpec: its recipe with the dataset and hparams.
func (l *Loop) Spec(ctx context.Context, dataset Dataset, hparams map[string]any, seed int64) (map[string]any, error) {
	lock, version, err := l.Lock(ctx, Recipe)
	if err != nil {
		return nil, err
	}
	return map[string]any{"api": "service/v1", "spec": map[string]any{
		"name":      l.Name,
		"recipe":    map[string]any{"name": Recipe, "version": version, "lock": lock},
		"hparams":   hparams,
		"seed":      seed,
		"bindings":  map[string]any{"datasets": map[string]string{"train": dataset.Ref}},
		"resources": map[string]any{"pools": []any{map[string]any{"pool": "default"}}},
	}}, nil
}

// Submit creates a job and stores it in l.Job.
func (l *Loop) Submit(ctx context.Context, spec map[string]any) error {
	if err := l.create(ctx, "/api/jobs", spec, &l.Job); err != nil {
		return fmt.Errorf("submit the job: %w", err)
	}
	return nil
}

// AwaitState waits until the job is in one of the states or has ended.
func (l *Loop) AwaitState(ctx context.Context, states ...string) error {
	err := l.await(ctx, func(ctx context.Context) (bool, error) {
		var now Job
		if err := l.get(ctx, "/api/jobs/"+l.Job.ID, &now); err != nil {
			return false, err
		}
		l.Job.update(now)
		if slices.Contains(states, l.Job.State) {
			return true, nil
		}
		return l.Job.Terminal(), nil
	})
	if err != nil {
		return fmt.Errorf("wait until the job is %v; it is %s: %w", states, l.Job.State, err)
	}
	return nil
}

// AwaitEnd waits until the job has ended and returns an error unless it succeeded.
func (l *Loop) AwaitEnd(ctx context.Context) error {
	if err := l.AwaitState(ctx, "succeeded", "failed", "stopped"); err != nil {
		return err
	}
	if l.Job.State != "succeeded" {
		return fmt.Errorf("the job %s: %s: %s", l.Job.State, deref(l.Job.EndReason), deref(l.Job.Message))
	}
	return nil
}

func deref(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// LogLine is one line of a run's output.
type LogLine struct {
	Seq  int64  `json:"seq"`
	Text string `json:"text"`
}

// Point is one metric value.
type Point struct {
	Key   string  `json:"key"`
	Step  int64   `json:"step"`
	Value float64 `json:"value"`
}

// FollowLogs calls the function handle with every line of the run's output, until the end of the stream. It reconnects
// if needed.
func (l *Loop) FollowLogs(ctx context.Context, handle func(LogLine)) error {
	return l.follow(ctx, "/api/jobs/"+l.Job.ID+"/logs/stream", func(e client.Event) error {
		if e.Name == "partial" {
			return nil // the line comes when it is finished
		}
		var line LogLine
		if err := json.Unmarshal([]byte(e.Data), &line); err != nil {
			return fmt.Errorf("decode a log line: %w", err)
		}
		handle(line)
		return nil
	})
}

// FollowMetrics calls the function handle with every metric point of the run, until the end of the stream. It
// reconnects if needed.
func (l *Loop) FollowMetrics(ctx context.Context, handle func(Point)) error {
	return l.follow(ctx, "/api/jobs/"+l.Job.ID+"/metrics/stream", func(e client.Event) error {
		var batch struct {
			Points []Point `json:"points"`
		}
		if err := json.Unmarshal([]byte(e.Data), &batch); err != nil {
			return fmt.Errorf("decode metrics: %w", err)
		}
		for _, p := range batch.Points {
			handle(p)
		}
		return nil
	})
}

// follow calls handle with every event of a stream up to its end.
func (l *Loop) follow(ctx context.Context, path string, handle func(client.Event) error) error {
	limited, end := l.within(ctx)
	defer end()
	var last error // why the stream was opened again
	w := client.Watcher{
		Client: l.Client, Clock: l.Clock, Retrying: func(cause error, _ time.Duration) { last = cause },
		Backoff: clock.Backoff{Base: pollEvery, Max: time.Second, Jitter: func() float64 { return 0 }},
	}
	err := w.Watch(limited, path, "", func(e client.Event) error {
		if e.Name == client.EventEOF {
			return nil
		}
		return handle(e)
	})
	if err != nil && limited.Err() != nil {
		return ended(ctx, cmp.Or(last, err))
	}
	return err
}

func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
