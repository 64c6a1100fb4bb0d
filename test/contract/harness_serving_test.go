package contract

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// deployed is a deployment with a promoted revision and a token.
type deployed struct {
	id, number, token, tokenID string
}

// serve deploys the shared model with the scripted engine.
func (b *builder) serve(name string) deployed {
	b.Helper()
	ada := b.as("operator")
	var deployment created
	b.do(ada, http.MethodPost, "/api/model-deployments", map[string]any{"name": name, "project": projectKey}, &deployment)
	path := "/api/model-deployments/" + deployment.ID
	number := b.addReadyRevision(path)
	b.do(ada, http.MethodPost, path+"/revisions/"+number+"/promote", nil, nil)
	var token struct {
		ID    string `json:"id"`
		Token string `json:"token"`
	}
	b.do(ada, http.MethodPost, path+"/tokens", map[string]any{"name": "application"}, &token)
	return deployed{id: deployment.ID, number: number, token: token.Token, tokenID: token.ID}
}

// addReadyRevision adds a revision to a deployment and waits until it is ready.
func (b *builder) addReadyRevision(path string) (number string) {
	b.Helper()
	model := b.at("model")
	ada := b.as("operator")
	var revision struct {
		Number int    `json:"number"`
		Ready  bool   `json:"ready"`
		State  string `json:"state"`
		Reason any    `json:"reason"`
	}
	b.do(ada, http.MethodPost, path+"/revisions", map[string]any{
		"source":  map[string]any{"model_id": model, "version": 1},
		"serving": map[string]any{"engine": "command", "command": fixtures.Engine()},
	}, &revision)
	number = fmt.Sprint(revision.Number)
	b.await("the revision is ready", func() bool {
		b.do(ada, http.MethodGet, path+"/revisions/"+number, nil, &revision)
		require.NotEqual(b, "failed", revision.State, "%v", revision.Reason)
		return revision.Ready
	})
	return number
}

// addDeployment creates a deployment of the shared model with the scripted engine.
func (b *builder) addDeployment() {
	b.Helper()
	s := b.serve("answers")
	b.set("deployment", s.id)
	b.set("revision", s.number)
	b.set("deployment_token", s.token)
}

// addOwnDeployment creates a deployment that the golden may change. The promoted revision has number 1.
func (b *builder) addOwnDeployment() {
	b.Helper()
	s := b.serve(b.name())
	b.set("own_deployment", s.id)
	b.set("own_token", s.token)
	b.set("own_token_id", s.tokenID)
}

// addSecond adds a ready revision to the golden's own deployment, without promoting it.
func (b *builder) addSecond() {
	b.Helper()
	b.set("second_revision", b.addReadyRevision("/api/model-deployments/"+b.at("own_deployment")))
}

// addSession creates a playground session with a ready target.
func (b *builder) addSession() {
	b.Helper()
	ada := b.as("operator")
	var session struct {
		ID    string `json:"id"`
		State string `json:"state"`
	}
	b.do(ada, http.MethodPost, "/api/playground/sessions", map[string]any{
		"project": projectKey, "ttl_s": 14400, "idle_timeout_s": 14400, "targets": []any{map[string]any{
			"source":  map[string]any{"model_id": b.at("model"), "version": 1},
			"serving": map[string]any{"engine": "command", "command": fixtures.Engine()},
		}},
	}, &session)
	b.await("the session is ready", func() bool {
		b.do(ada, http.MethodGet, "/api/playground/sessions/"+session.ID, nil, &session)
		require.NotEqual(b, "failed", session.State)
		return session.State == "ready"
	})
	b.set("session", session.ID)
}

// addOwnModel creates a model with one version. The golden may change the model.
func (b *builder) addOwnModel() {
	b.Helper()
	run, artifact := b.at("run"), b.at("artifact")
	ada := b.as("operator")
	var model created
	b.do(ada, http.MethodPost, "/api/models", map[string]any{"name": b.name(), "project": projectKey, "task": "chat"}, &model)
	b.do(ada, http.MethodPost, "/api/models/"+model.ID+"/versions",
		map[string]any{"source": map[string]string{"run_id": run, "artifact_id": artifact}}, nil)
	b.set("own_model", model.ID)
}

// name returns a name that no other golden uses.
func (b *builder) name() string { return "own-" + strings.ReplaceAll(b.address(), ".", "-") }
