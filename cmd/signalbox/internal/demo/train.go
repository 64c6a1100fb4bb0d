package demo

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// leastExactMatch is the share of exact matches that the last validation round must reach.
const leastExactMatch = 0.9

// demoSeed determines the pairs of the dataset and the initial weights. With this one, the model learns the task in some
// 700 steps; with others, it may need twice as many.
const demoSeed = 1

// train pushes the dataset, submits the job and follows it to its end.
func (d *demo) train(ctx context.Context) error {
	lesson := e2eflow.TwoDigits()
	rows, err := lesson.Rows(demoSeed)
	if err != nil {
		return err
	}
	dataset, err := d.loop.PushDataset(ctx, "v1", "additions.jsonl", rows)
	if err != nil {
		return err
	}
	d.say("dataset", "%s: %d pairs, a fifth held out", dataset.Ref, lesson.Pairs)
	spec, err := d.loop.Spec(ctx, dataset, lesson.Hparams, demoSeed)
	if err != nil {
		return err
	}
	if err := d.loop.Submit(ctx, spec); err != nil {
		return err
	}
	d.say("job", "%s of %s admitted, run %s", d.loop.Job.ID, e2eflow.Recipe, d.loop.Job.RunID)
	return d.follow(ctx)
}

// follow prints the run's metrics during the training, and waits until the job ends.
func (d *demo) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var lines atomic.Int64
	var metricsErr, logsErr error
	wg.Go(func() { metricsErr = d.loop.FollowMetrics(ctx, d.onPoint) })
	wg.Go(func() { logsErr = d.loop.FollowLogs(ctx, func(e2eflow.LogLine) { lines.Add(1) }) })
	err := d.loop.AwaitEnd(ctx)
	if err != nil {
		cancel()
	}
	wg.Wait()
	cancel()
	switch {
	case err != nil:
		return err
	case metricsErr != nil:
		return fmt.Errorf("follow the metrics: %w", metricsErr)
	case logsErr != nil:
		return fmt.Errorf("follow the logs: %w", logsErr)
	}
	d.say("trained", "job %s, %d log lines followed", d.loop.Job.State, lines.Load())
	return nil
}

func (d *demo) onPoint(p e2eflow.Point) {
	if d.firstMetric == 0 {
		d.firstMetric = clock.Since(d.Clock, d.began)
		d.say("metric", "first one: %s = %.3f", p.Key, p.Value)
	}
	if p.Key == "val/exact_match" {
		d.say("step", "%4d  exact match on held-out pairs %.2f", p.Step, p.Value)
	}
}

// judge returns an error unless the model has learned. Otherwise it returns a random question that the model got right
// and that was not in its training data.
func (d *demo) judge(ctx context.Context) (e2eflow.Sample, error) {
	rounds, err := d.loop.Rounds(ctx)
	if err != nil {
		return e2eflow.Sample{}, err
	}
	last := rounds[len(rounds)-1]
	if !last.Complete || last.AvgReward == nil || *last.AvgReward < leastExactMatch {
		return e2eflow.Sample{}, fmt.Errorf("the last validation round (step %d) is incomplete or its average reward (%s) is below %.1f", last.Step, show(last.AvgReward), leastExactMatch)
	}
	samples, err := d.loop.Samples(ctx)
	if err != nil {
		return e2eflow.Sample{}, err
	}
	var right []e2eflow.Sample
	for _, s := range samples {
		if s.Reward == 1 && s.Answer == s.Expected {
			right = append(right, s)
		}
	}
	if len(right) == 0 {
		return e2eflow.Sample{}, fmt.Errorf("the model solved none of %d held-out pairs", len(samples))
	}
	n, err := draw(len(right))
	if err != nil {
		return e2eflow.Sample{}, err
	}
	d.say("judged", "exact match %.2f at first, %s at last; %d of %d held-out pairs right", value(rounds[0].AvgReward),
		show(last.AvgReward), len(right), len(samples))
	return right[n], nil
}

func value(f *float64) float64 {
	if f == nil {
		return 0
	}
	return *f
}

func show(f *float64) string {
	if f == nil {
		return "not reported"
	}
	return fmt.Sprintf("%.2f", *f)
}
