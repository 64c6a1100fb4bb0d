package contract

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
)

// modelKey is the API key of the fake language model. One of the model's error messages contains the key, but no
// response of the installation may contain it.
const modelKey = "sk-contract-Zx81qTRUE7secret"

// addModelServer starts an OpenAI-compatible server. The first segment of the request path selects the
// script that determines the response. addModelServer stores all settings for the server except the URL,
// which each golden sets.
func (b *builder) addModelServer() {
	b.Helper()
	server := httptest.NewServer(http.HandlerFunc(scripted))
	b.Cleanup(server.Close)
	admin := b.as("admin")
	for key, value := range map[string]string{"agent.model": "asked-model", "agent.api_key": modelKey} {
		b.do(admin, http.MethodPut, "/api/admin/settings/"+key, map[string]any{"value": value, "version": 0}, nil)
	}
	b.set("llm", server.URL)
}

// completionRequest has those members of a completion request that the scripts use.
type completionRequest struct {
	Messages []struct{ Role, Content string }
	Tools    []any
	Choice   any `json:"tool_choice"`
}

// scripted responds according to the script that the first segment of the request path selects.
func scripted(w http.ResponseWriter, r *http.Request) {
	script, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	raw, _ := io.ReadAll(r.Body)
	var in completionRequest
	if json.Unmarshal(raw, &in) != nil || r.Header.Get("Authorization") != "Bearer "+modelKey {
		http.Error(w, "unexpected", http.StatusTeapot)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case script == "refused":
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error": {"message": "Incorrect API key provided: `+modelKey+`"}}`)
	case script == "page":
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<h1>Sign in</h1>")
	case script == "elsewhere":
		w.Header().Set("Location", "https://elsewhere.example/v1/chat/completions")
		w.WriteHeader(http.StatusTemporaryRedirect)
	case len(in.Tools) == 0:
		_, _ = io.WriteString(w, completion(map[string]any{"content": "ready"}))
	case script == "prose":
		_, _ = io.WriteString(w, completion(map[string]any{"content": "I would call it with pleasure."}))
	case script == "auto" && in.Choice != nil && in.Choice != "auto":
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error": "tool_choice is not supported"}`)
	case len(in.Messages) == 3:
		_, _ = io.WriteString(w, completion(map[string]any{"content": "It gave the nonce back."}))
	default:
		_, nonce, _ := strings.Cut(in.Messages[0].Content, "with the nonce ")
		_, _ = io.WriteString(w, completion(map[string]any{"tool_calls": []any{map[string]any{
			"id": "call_1", "type": "function", "function": map[string]any{"name": "echo_nonce", "arguments": `{"nonce": "` + nonce[:16] + `"}`},
		}}}))
	}
}

func completion(message map[string]any) string {
	raw, err := json.Marshal(map[string]any{"model": "used-model", "choices": []any{map[string]any{"message": message}}})
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
