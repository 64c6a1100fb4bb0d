package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"
)

const pollEvery = 50 * time.Millisecond

// uploadTarget is a signed upload request.
type uploadTarget struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
}

func (u uploadTarget) put(b *builder, data []byte) {
	b.Helper()
	require.NoError(b, b.caller().Upload(b.Context(), u.Method, u.URL, u.Headers, data), b.Tail())
}

type created struct {
	ID string `json:"id"`
}

// addDataset creates a dataset with a committed version of one file.
func (b *builder) addDataset() {
	b.Helper()
	ada := b.as("operator")
	var dataset created
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

// addModel registers the finished run's artifact as a model.
func (b *builder) addModel() {
	b.Helper()
	run := b.at("run")
	ada := b.as("operator")
	var model created
	b.do(ada, http.MethodPost, "/api/models", map[string]any{"name": "answers", "project": projectKey, "task": "chat"}, &model)
	b.do(ada, http.MethodPost, "/api/models/"+model.ID+"/versions",
		map[string]any{"source": map[string]string{"run_id": run, "artifact_id": b.at("artifact")}}, nil)
	b.set("model", model.ID)
	b.set("model_version", "1")
}
