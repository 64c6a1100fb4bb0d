package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// ChatRequest is the part of a chat completion that the loop needs: one question, greedy decoding.
type ChatRequest struct {
	Model       string        `json:"model"`
	Messages    []ChatMessage `json:"messages"`
	Temperature float64       `json:"temperature"`
	MaxTokens   int           `json:"max_tokens"`
	Stream      bool          `json:"stream,omitempty"`
}

// ChatMessage is one turn.
type ChatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Ask is a greedy request for the answer to one question.
func Ask(question string) ChatRequest {
	return ChatRequest{Model: "default", MaxTokens: 16, Messages: []ChatMessage{{Role: "user", Content: question}}}
}

type chatAnswer struct {
	Choices []struct {
		Message ChatMessage `json:"message"`
		Delta   ChatMessage `json:"delta"`
	} `json:"choices"`
}

// Chat asks a deployment plainly and answers the text.
func (c *Client) Chat(ctx context.Context, deployment, question string) (string, error) {
	var out chatAnswer
	if err := c.Post(ctx, "/inference/"+deployment+"/v1/chat/completions", Ask(question), &out); err != nil {
		return "", err
	}
	if len(out.Choices) == 0 {
		return "", errors.New("the engine answered without a choice")
	}
	return strings.TrimSpace(out.Choices[0].Message.Content), nil
}

// ChatStream asks a deployment for a stream and answers the text and how many events carried it.
func (c *Client) ChatStream(ctx context.Context, deployment, question string) (text string, events int, err error) {
	in := Ask(question)
	in.Stream = true
	raw, err := json.Marshal(in)
	if err != nil {
		return "", 0, fmt.Errorf("encode the question: %w", err)
	}
	path := c.base + "/inference/" + deployment + "/v1/chat/completions"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(raw))
	if err != nil {
		return "", 0, fmt.Errorf("make the question: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	var b strings.Builder
	done := false
	_, err = c.stream(req, "", func(e Event) error {
		// The stream is read to its end behind the mark too: a caller who hangs up at the mark has left early.
		if done = done || e.Data == "[DONE]"; done {
			return nil
		}
		var out chatAnswer
		if err := json.Unmarshal([]byte(e.Data), &out); err != nil {
			return fmt.Errorf("decode a chunk: %w", err)
		}
		if len(out.Choices) > 0 && out.Choices[0].Delta.Content != "" {
			b.WriteString(out.Choices[0].Delta.Content)
			events++
		}
		return nil
	})
	// Not every engine writes [DONE]; a clean end is one too.
	if done || errors.Is(err, ErrCut) {
		err = nil
	}
	return strings.TrimSpace(b.String()), events, err
}
