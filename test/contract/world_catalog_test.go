package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/sample"
)

const pollEvery = 50 * time.Millisecond

// uploadTarget is a signed request.
type uploadTarget struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
}

func (u uploadTarget) put(b *builder, data []byte) {
	b.Helper()
	require.NoError(b, b.caller().Upload(b.Context(), u.Method, u.URL, u.Headers, data), b.Tail())
}

type made struct {
	ID string `json:"id"`
}

// addDataset is a committed version of one file.
func (b *builder) addDataset() {
	b.Helper()
	ada := b.as("operator")
	var dataset made
	b.do(ada, http.MethodPost, "/api/datasets", map[string]any{"name": "questions", "project": projectKey, "format": "jsonl"}, &dataset)
	data := []byte("{\"question\": \"1+1?\", \"answer\": \"2\"}\n")
	sum := sha256.Sum256(data)
	var version struct {
		Uploads []uploadTarget `json:"uploads"`
	}
	b.do(ada, http.MethodPost, "/api/datasets/"+dataset.ID+"/versions", map[string]any{
		"version": "v1",
		"files":   []any{map[string]any{"path": "a.jsonl", "size_bytes": len(data), "sha256": hex.EncodeToString(sum[:])}},
	}, &version)
	for _, u := range version.Uploads {
		u.put(b, data)
	}
	b.do(ada, http.MethodPost, "/api/datasets/"+dataset.ID+"/versions/v1/commit", nil, nil)
	b.set("dataset", dataset.ID)
	b.set("dataset_version", "v1")
}

// addModel registers what the finished run made.
func (b *builder) addModel() {
	b.Helper()
	run := b.at("run")
	ada := b.as("operator")
	var model made
	b.do(ada, http.MethodPost, "/api/models", map[string]any{"name": "answers", "project": projectKey, "task": "chat"}, &model)
	b.do(ada, http.MethodPost, "/api/models/"+model.ID+"/versions",
		map[string]any{"source": map[string]string{"run_id": run, "artifact_id": b.at("artifact")}}, nil)
	b.set("model", model.ID)
	b.set("model_version", "1")
}

// addDeployment serves the model by the scripted engine and promotes it.
func (b *builder) addDeployment() {
	b.Helper()
	model := b.at("model")
	ada := b.as("operator")
	var deployment made
	b.do(ada, http.MethodPost, "/api/model-deployments", map[string]any{"name": "answers", "project": projectKey}, &deployment)
	path := "/api/model-deployments/" + deployment.ID
	var revision struct {
		Number int    `json:"number"`
		Ready  bool   `json:"ready"`
		State  string `json:"state"`
		Reason any    `json:"reason"`
	}
	b.do(ada, http.MethodPost, path+"/revisions", map[string]any{
		"source":  map[string]any{"model_id": model, "version": 1},
		"serving": map[string]any{"engine": "command", "command": sample.Engine()},
	}, &revision)
	number := fmt.Sprint(revision.Number)
	b.await("the revision is ready", func() bool {
		b.do(ada, http.MethodGet, path+"/revisions/"+number, nil, &revision)
		require.NotEqual(b, "failed", revision.State, "%v", revision.Reason)
		return revision.Ready
	})
	b.do(ada, http.MethodPost, path+"/revisions/"+number+"/promote", nil, nil)
	var token struct {
		Token string `json:"token"`
	}
	b.do(ada, http.MethodPost, path+"/tokens", map[string]any{"name": "application"}, &token)
	b.set("deployment", deployment.ID)
	b.set("revision", number)
	b.set("deployment_token", token.Token)
}
