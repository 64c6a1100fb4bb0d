package demo

import (
	"context"
	"fmt"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// serve registers the trained model, deploys it and sends it the question twice, the second time streamed.
func (d *demo) serve(ctx context.Context, q e2eflow.Sample) error {
	if err := d.deploy(ctx, d.loop, "merged_model", d.loop.Name); err != nil {
		return err
	}
	answer, err := d.loop.Chat(ctx, q.Question)
	if err != nil {
		return fmt.Errorf("query the model: %w", err)
	}
	d.firstChat = clock.Since(d.Clock, d.began)
	d.say("chat", "question %s  answer %s  (held out of training; correct: %s)", q.Question, answer, q.Expected)
	if answer != q.Expected {
		return fmt.Errorf("the trained model returned %q for %s; %s is right", answer, q.Question, q.Expected)
	}
	streamed, events, err := d.loop.ChatStream(ctx, q.Question)
	if err != nil {
		return fmt.Errorf("query the model with streaming: %w", err)
	}
	if streamed != q.Expected {
		return fmt.Errorf("the trained model streamed %q for %s; %s is right", streamed, q.Question, q.Expected)
	}
	d.say("stream", "the same in %d events", events)
	calls, err := d.loop.AwaitTraffic(ctx, 2)
	if err != nil {
		return err
	}
	d.say("traffic", "%d calls recorded under the token %q, revision %d", len(calls), calls[0].TokenName, calls[0].RevisionNumber)
	return nil
}

// contrast sends the question to the untrained weights through the same engine and the same address. The untrained
// weights must give a wrong response. Otherwise the right response of the trained model would prove nothing. Then
// contrast promotes the trained revision again and stops the untrained one.
func (d *demo) contrast(ctx context.Context, q e2eflow.Sample) error {
	trained := d.loop.Revision
	version, err := d.register(ctx, d.loop, "checkpoint")
	if err != nil {
		return err
	}
	if err := d.loop.Revise(ctx, version, nil); err != nil {
		return err
	}
	if err := d.loop.AwaitReady(ctx); err != nil {
		return err
	}
	if err := d.loop.Promote(ctx); err != nil {
		return err
	}
	answer, err := d.loop.Chat(ctx, q.Question)
	if err != nil {
		return fmt.Errorf("query the untrained model: %w", err)
	}
	if answer == q.Expected {
		return fmt.Errorf("the untrained weights solve %s too, so the comparison proves nothing", q.Question)
	}
	d.say("contrast", "the untrained weights in the same engine answer %.20q", answer)
	untrained := d.loop.Revision
	d.loop.Revision = trained
	if err := d.loop.Promote(ctx); err != nil {
		return err
	}
	d.say("rollback", "revision %d is promoted again at the same address", trained.Number)
	return d.loop.StopRevision(ctx, untrained)
}

// deploy registers the run's last artifact of the given kind in the format GGUF, deploys and promotes it, and creates a
// token for the deployment.
func (d *demo) deploy(ctx context.Context, l *e2eflow.Loop, kind, name string) error {
	version, err := d.register(ctx, l, kind)
	if err != nil {
		return err
	}
	if err := l.Deploy(ctx, name, version, nil); err != nil {
		return err
	}
	if err := l.PromoteTooEarly(ctx); err != nil {
		return err
	}
	if err := l.AwaitReady(ctx); err != nil {
		return err
	}
	if err := l.Promote(ctx); err != nil {
		return err
	}
	if err := l.MakeToken(ctx, "demo"); err != nil {
		return err
	}
	d.say("deployed", "%s, revision %d ready and promoted", l.Deployment.ID, l.Revision.Number)
	return nil
}

// register creates a model version from the run's last artifact of the given kind in the format GGUF.
func (d *demo) register(ctx context.Context, l *e2eflow.Loop, kind string) (e2eflow.ModelVersion, error) {
	artifact, err := l.FindArtifact(ctx, kind, "gguf")
	if err != nil {
		return e2eflow.ModelVersion{}, err
	}
	version, err := l.Register(ctx, artifact)
	if err != nil {
		return e2eflow.ModelVersion{}, err
	}
	d.say("model", "%s version %d, %.19s", l.Name, version.Version, version.Digest)
	return version, nil
}
