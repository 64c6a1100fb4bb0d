package e2eflow

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// ModelVersion is a registered model version.
type ModelVersion struct {
	ID      string `json:"id"`
	ModelID string `json:"model_id"`
	Version int    `json:"version"`
	Status  string `json:"status"`
	Digest  string `json:"digest"`
	Reason  string `json:"status_reason"`
}

// Deployment is the deployment that Deploy creates.
type Deployment struct {
	ID       string `json:"id"`
	URL      string `json:"url"`
	Promoted *int   `json:"promoted_revision"`
}

// Revision is a revision of a Deployment.
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

// Register creates a version of the model l.Name from an artifact of the run.
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

// Deploy creates a deployment and its first revision. If no serving settings are given, the default engine runs on one
// thread.
func (l *Loop) Deploy(ctx context.Context, name string, v ModelVersion, serving map[string]any) error {
	if err := l.create(ctx, "/api/model-deployments", map[string]any{"name": name}, &l.Deployment); err != nil {
		return fmt.Errorf("create the deployment: %w", err)
	}
	return l.Revise(ctx, v, serving)
}

// Revise adds a revision to the deployment.
func (l *Loop) Revise(ctx context.Context, v ModelVersion, serving map[string]any) error {
	if serving == nil {
		// Several threads of so small a model wait for each other in busy loops, which takes seconds on a busy machine.
		serving = map[string]any{"args": []string{"--threads", "1"}}
	}
	body := map[string]any{"source": map[string]any{"model_id": v.ModelID, "version": v.Version}, "serving": serving}
	var made Revision // decode into an empty value, so that no field of the last revision remains
	if err := l.create(ctx, "/api/model-deployments/"+l.Deployment.ID+"/revisions", body, &made); err != nil {
		return fmt.Errorf("create the revision: %w", err)
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
		return fmt.Errorf("wait for the revision; it is %s: %w", l.Revision.State, err)
	}
	if !l.Revision.Ready {
		if r := l.Revision.Reason; r != nil {
			return fmt.Errorf("the revision failed: %s/%s: %s\n%s", r.Phase, r.Code, r.Message, r.LogExcerpt)
		}
		return errors.New("the revision failed")
	}
	return nil
}

// PromoteTooEarly promotes a revision that is not ready and returns an error unless the response is 409.
func (l *Loop) PromoteTooEarly(ctx context.Context) error {
	err := l.retry(ctx, func(ctx context.Context) error { return l.Client.Post(ctx, l.revisionPath()+"/promote", nil, nil) })
	var failed *client.Error
	if errors.As(err, &failed) && failed.Status == http.StatusConflict {
		return nil
	}
	return fmt.Errorf("promoting a revision that is not ready: want 409, got %v", err) //nolint:errorlint // err may be nil.
}

// Promote promotes the revision: the deployment's calls now go to it.
func (l *Loop) Promote(ctx context.Context) error {
	err := l.retry(ctx, func(ctx context.Context) error {
		return l.Client.Post(ctx, l.revisionPath()+"/promote", nil, &l.Deployment)
	})
	if err != nil {
		return fmt.Errorf("promote the revision: %w", err)
	}
	return nil
}

// StopRevision stops the engines of a revision that is not promoted.
func (l *Loop) StopRevision(ctx context.Context, r Revision) error {
	path := fmt.Sprintf("/api/model-deployments/%s/revisions/%d/stop", l.Deployment.ID, r.Number)
	if err := l.retry(ctx, func(ctx context.Context) error { return l.Client.Post(ctx, path, nil, nil) }); err != nil {
		return fmt.Errorf("stop revision %d: %w", r.Number, err)
	}
	return nil
}

// maxLost is how many responses to a creation may be lost before MakeToken gives up.
const maxLost = 5

// MakeToken creates a deployment token and stores it in l. The secret is returned only once. If that response is
// lost, MakeToken revokes the token and creates another one.
func (l *Loop) MakeToken(ctx context.Context, name string) error {
	path := "/api/model-deployments/" + l.Deployment.ID + "/tokens"
	for range maxLost {
		var made struct {
			ID    string `json:"id"`
			Token string `json:"token"` // null if an earlier attempt of this creation succeeded
		}
		if err := l.create(ctx, path, map[string]string{"name": name}, &made); err != nil {
			return fmt.Errorf("create a token: %w", err)
		}
		if made.Token != "" {
			l.Token, l.TokenID = secret.New(made.Token), made.ID
			return nil
		}
		err := l.retry(ctx, func(ctx context.Context) error {
			return l.Client.Do(ctx, http.MethodDelete, path+"/"+made.ID, nil, nil)
		})
		if err != nil {
			return fmt.Errorf("revoke a token whose secret was lost: %w", err)
		}
	}
	return fmt.Errorf("create a token: the response was lost %d times", maxLost)
}

// Chat sends a question to the deployment with its token, as an application would.
func (l *Loop) Chat(ctx context.Context, question string) (string, error) {
	caller := l.Client.With(l.Token)
	var text string
	err := l.retry(ctx, func(ctx context.Context) error {
		var err error
		text, err = caller.Chat(ctx, l.Deployment.ID, question)
		return err
	})
	return text, err
}

// ChatStream is like Chat, but streams and does not retry. It also returns the number of events with text.
func (l *Loop) ChatStream(ctx context.Context, question string) (text string, events int, err error) {
	limited, end := l.within(ctx)
	defer end()
	text, events, err = l.Client.With(l.Token).ChatStream(limited, l.Deployment.ID, question)
	if err != nil && limited.Err() != nil {
		err = ended(ctx, err)
	}
	return text, events, err
}

// Call is one call in a deployment's traffic record.
type Call struct {
	RequestID      string `json:"request_id"`
	Path           string `json:"path"`
	Status         int    `json:"status"`
	Outcome        string `json:"outcome"`
	Stream         bool   `json:"stream"`
	TokenName      string `json:"token_name"`
	RevisionNumber int    `json:"revision_number"`
}

// AwaitTraffic waits until the traffic record shows at least n calls of the deployment.
func (l *Loop) AwaitTraffic(ctx context.Context, n int) ([]Call, error) {
	var calls []Call
	err := l.await(ctx, func(ctx context.Context) (bool, error) {
		err := l.get(ctx, "/api/model-deployments/"+l.Deployment.ID+"/traffic", &calls)
		return len(calls) >= n, err
	})
	if err != nil {
		return calls, fmt.Errorf("wait for %d calls in the traffic record; it has %d: %w", n, len(calls), err)
	}
	return calls, nil
}
