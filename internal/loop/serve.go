package loop

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// ModelVersion is a version that was registered.
type ModelVersion struct {
	ID      string `json:"id"`
	ModelID string `json:"model_id"`
	Version int    `json:"version"`
	Status  string `json:"status"`
	Digest  string `json:"digest"`
	Reason  string `json:"status_reason"`
}

// Deployment is a deployment of the walk.
type Deployment struct {
	ID       string `json:"id"`
	URL      string `json:"url"`
	Promoted *int   `json:"promoted_revision"`
}

// Revision is a revision of the walk's deployment.
type Revision struct {
	ID     string `json:"id"`
	Number int    `json:"number"`
	State  string `json:"state"`
	Ready  bool   `json:"ready"`
	Reason *struct {
		Phase, Code, Message string
		LogExcerpt           string `json:"log_excerpt"`
	} `json:"reason"`
}

// Register makes a version of the walk's model from an artifact of its run.
func (l *Loop) Register(ctx context.Context, a Artifact) (ModelVersion, error) {
	model, err := l.ensure(ctx, "/api/models", map[string]any{"name": l.Name, "task": "chat"})
	if err != nil {
		return ModelVersion{}, err
	}
	var v ModelVersion
	body := map[string]any{"source": map[string]string{"run_id": l.Job.RunID, "artifact_id": a.ID}}
	if err := l.create(ctx, "/api/models/"+model+"/versions", body, &v); err != nil {
		return ModelVersion{}, fmt.Errorf("register the model: %w", err)
	}
	if v.Status != "ready" {
		return v, fmt.Errorf("the model version is %s: %s", v.Status, v.Reason)
	}
	return v, nil
}

// Deploy makes a deployment and its first revision. Serving may be nil for the default engine.
func (l *Loop) Deploy(ctx context.Context, name string, v ModelVersion, serving map[string]any) error {
	if err := l.create(ctx, "/api/model-deployments", map[string]any{"name": name}, &l.Deployment); err != nil {
		return fmt.Errorf("make the deployment: %w", err)
	}
	return l.Revise(ctx, v, serving)
}

// Revise adds a revision to the walk's deployment.
func (l *Loop) Revise(ctx context.Context, v ModelVersion, serving map[string]any) error {
	body := map[string]any{"source": map[string]any{"model_id": v.ModelID, "version": v.Version}}
	if serving != nil {
		body["serving"] = serving
	}
	var made Revision // not decoded over the last one, of which something could stay
	if err := l.create(ctx, "/api/model-deployments/"+l.Deployment.ID+"/revisions", body, &made); err != nil {
		return fmt.Errorf("make the revision: %w", err)
	}
	l.Revision = made
	return nil
}

func (l *Loop) revisionPath() string {
	return fmt.Sprintf("/api/model-deployments/%s/revisions/%d", l.Deployment.ID, l.Revision.Number)
}

// AwaitReady waits until the revision is ready or has failed.
func (l *Loop) AwaitReady(ctx context.Context) error {
	err := l.await(ctx, func(ctx context.Context) (bool, error) {
		var now Revision
		if err := l.get(ctx, l.revisionPath(), &now); err != nil {
			return false, err
		}
		l.Revision = now
		return now.Ready || now.State == "failed", nil
	})
	if err != nil {
		return fmt.Errorf("wait for the revision, it is %s: %w", l.Revision.State, err)
	}
	if !l.Revision.Ready {
		if r := l.Revision.Reason; r != nil {
			return fmt.Errorf("the revision failed: %s/%s: %s\n%s", r.Phase, r.Code, r.Message, r.LogExcerpt)
		}
		return errors.New("the revision failed")
	}
	return nil
}

// PromoteTooEarly demands that promoting a revision that is not ready is a conflict.
func (l *Loop) PromoteTooEarly(ctx context.Context) error {
	err := l.retry(ctx, func(ctx context.Context) error { return l.Client.Post(ctx, l.revisionPath()+"/promote", nil, nil) })
	var answer *client.Error
	if errors.As(err, &answer) && answer.Status == http.StatusConflict {
		return nil
	}
	return fmt.Errorf("promoting a revision that is not ready: want 409, got %v", err) //nolint:errorlint // the answer is shown, whatever it is.
}

// Promote makes the revision the one that answers.
func (l *Loop) Promote(ctx context.Context) error {
	err := l.retry(ctx, func(ctx context.Context) error {
		return l.Client.Post(ctx, l.revisionPath()+"/promote", nil, &l.Deployment)
	})
	if err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	return nil
}

// StopRevision ends the engines of a revision of the walk's deployment that is not promoted.
func (l *Loop) StopRevision(ctx context.Context, r Revision) error {
	path := fmt.Sprintf("/api/model-deployments/%s/revisions/%d/stop", l.Deployment.ID, r.Number)
	if err := l.retry(ctx, func(ctx context.Context) error { return l.Client.Post(ctx, path, nil, nil) }); err != nil {
		return fmt.Errorf("stop revision %d: %w", r.Number, err)
	}
	return nil
}

// maxLost is how often the answer to one creation may be lost before something else must be wrong.
const maxLost = 5

// MakeToken makes a deployment token and keeps it. A token whose one answer was lost on the way is nobody's:
// it is revoked and another one made.
func (l *Loop) MakeToken(ctx context.Context, name string) error {
	path := "/api/model-deployments/" + l.Deployment.ID + "/tokens"
	for range maxLost {
		var made struct {
			ID    string `json:"id"`
			Token string `json:"token"` // null where this creation had been answered before
		}
		if err := l.create(ctx, path, map[string]string{"name": name}, &made); err != nil {
			return fmt.Errorf("make a token: %w", err)
		}
		if made.Token != "" {
			l.Token, l.TokenID = secret.New(made.Token), made.ID
			return nil
		}
		err := l.retry(ctx, func(ctx context.Context) error {
			return l.Client.Do(ctx, http.MethodDelete, path+"/"+made.ID, nil, nil)
		})
		if err != nil {
			return fmt.Errorf("revoke a token whose answer was lost: %w", err)
		}
	}
	return fmt.Errorf("make a token: its answer was lost %d times", maxLost)
}

// Chat asks the deployment, with its token, as an application would.
func (l *Loop) Chat(ctx context.Context, question string) (string, error) {
	caller := l.Client.With(l.Token)
	var answer string
	err := l.retry(ctx, func(ctx context.Context) error {
		var err error
		answer, err = caller.Chat(ctx, l.Deployment.ID, question)
		return err
	})
	return answer, err
}

// ChatStream asks for a stream.
func (l *Loop) ChatStream(ctx context.Context, question string) (answer string, events int, err error) {
	limited, end := l.within(ctx)
	defer end()
	answer, events, err = l.Client.With(l.Token).ChatStream(limited, l.Deployment.ID, question)
	if err != nil && limited.Err() != nil {
		err = ended(ctx, err)
	}
	return answer, events, err
}

// Call is one row of the traffic record.
type Call struct {
	RequestID      string `json:"request_id"`
	Path           string `json:"path"`
	Status         int    `json:"status"`
	Outcome        string `json:"outcome"`
	Stream         bool   `json:"stream"`
	TokenName      string `json:"token_name"`
	RevisionNumber int    `json:"revision_number"`
}

// AwaitTraffic waits until the record shows at least n calls of the deployment.
func (l *Loop) AwaitTraffic(ctx context.Context, n int) ([]Call, error) {
	var calls []Call
	err := l.await(ctx, func(ctx context.Context) (bool, error) {
		err := l.get(ctx, "/api/model-deployments/"+l.Deployment.ID+"/traffic", &calls)
		return len(calls) >= n, err
	})
	if err != nil {
		return calls, fmt.Errorf("wait for %d calls in the record, it shows %d: %w", n, len(calls), err)
	}
	return calls, nil
}
