package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// ChatRequest holds the fields of a chat completion request that the demo and the tests use.
type ChatRequest struct {
	Model       string        `json:"model"`
	Messages    []ChatMessage `json:"messages"`
	Temperature float64       `json:"temperature"`
	MaxTokens   int           `json:"max_tokens"`
	Stream      bool          `json:"stream,omitempty"`
}

// ChatMessage is one message of a conversation.
type ChatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// NewChatRequest returns a request for the greedy completion of one question.
func NewChatRequest(question string) ChatRequest {
	return ChatRequest{Model: "default", MaxTokens: 16, Messages: []ChatMessage{{Role: "user", Content: question}}}
}

type chatResponse struct {
	// Error is set in the last event of a stream that failed.
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
	Choices []struct {
		Message ChatMessage `json:"message"`
		Delta   ChatMessage `json:"delta"`
	} `json:"choices"`
}

func chatPath(deployment string) string {
	return "/inference/" + url.PathEscape(deployment) + "/v1/chat/completions"
}

// Chat sends a question to a deployment without streaming and returns the text of the response.
func (c *Client) Chat(ctx context.Context, deployment, question string) (string, error) {
	var out chatResponse
	if err := c.Post(ctx, chatPath(deployment), NewChatRequest(question), &out); err != nil {
		return "", err
	}
	if len(out.Choices) == 0 {
		return "", errors.New("the engine's response has no choices")
	}
	return strings.TrimSpace(out.Choices[0].Message.Content), nil
}

// ChatStream sends a question to a deployment with streaming. It returns the text of the response and the number
// of events with text.
func (c *Client) ChatStream(ctx context.Context, deployment, question string) (text string, events int, err error) {
	var b strings.Builder
	err = c.Converse(ctx, deployment, NewChatRequest(question), func(part string) error {
		b.WriteString(part)
		events++
		return nil
	})
	return strings.TrimSpace(b.String()), events, err
}

// Converse sends a chat request to a deployment with streaming, and calls handle with each part of the text of the
// response.
func (c *Client) Converse(ctx context.Context, deployment string, in ChatRequest, handle func(part string) error) error {
	in.Stream = true
	raw, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	req, err := c.request(ctx, http.MethodPost, chatPath(deployment), bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	done := false
	_, err = c.stream(req, "", func() {}, func(e Event) error {
		// Read the stream to its end even after [DONE]: the server would treat an earlier close as a disconnect.
		if done = done || e.Data == "[DONE]"; done {
			return nil
		}
		var out chatResponse
		if err := json.Unmarshal([]byte(e.Data), &out); err != nil {
			return fmt.Errorf("decode a chunk: %w", err)
		}
		if out.Error != nil {
			return fmt.Errorf("the engine failed during the response: %s", out.Error.Message)
		}
		if len(out.Choices) > 0 && out.Choices[0].Delta.Content != "" {
			return handle(out.Choices[0].Delta.Content)
		}
		return nil
	})
	// Some engines do not send [DONE]; a stream that ends without an error is then complete too.
	if done || errors.Is(err, ErrUnexpectedEnd) {
		err = nil
	}
	return err
}
