package llm

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// chatRequest is a chat completion request. It has only fields that every OpenAI-compatible server accepts.
type chatRequest struct {
	Model      string    `json:"model"`
	Messages   []message `json:"messages"`
	Tools      []tool    `json:"tools,omitempty"`
	ToolChoice any       `json:"tool_choice,omitempty"`
}

type message struct {
	Role       string  `json:"role"`
	Content    *string `json:"content"`
	ToolCalls  []call  `json:"tool_calls,omitempty"`
	ToolCallID string  `json:"tool_call_id,omitempty"`
}

func textMessage(role, text string) message { return message{Role: role, Content: &text} }

type call struct {
	ID       string     `json:"id"`
	Type     string     `json:"type"`
	Function calledWith `json:"function"`
}

type calledWith struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// completion is the part of a response that the check reads.
type completion struct {
	Model   string `json:"model"`
	Choices []struct {
		Message *message `json:"message"`
	} `json:"choices"`
}

func (c completion) text() string {
	if content := c.Choices[0].Message.Content; content != nil {
		return *content
	}
	return ""
}

// completion parses a response with a 2xx status. If the response is not a chat completion, the error quotes it.
func (m mask) completion(a response) (completion, error) {
	var out completion
	var wrong *json.UnmarshalTypeError
	err := json.Unmarshal(a.body, &out)
	switch {
	case errors.As(err, &wrong):
		return out, fmt.Errorf("the response is not a chat completion: field %q has the wrong type; upstream response: %s", wrong.Field, m.words(a.body))
	case err != nil:
		return out, fmt.Errorf("the response is not JSON (%s); upstream response: %s", m.text(a.typ, 128), m.words(a.body))
	case len(out.Choices) == 0 || out.Choices[0].Message == nil:
		return out, fmt.Errorf("the response is not a chat completion: choices[0].message is missing; upstream response: %s", m.words(a.body))
	}
	return out, nil
}

// echo is the name of the only function that the check offers to the model.
const echo = "echo_nonce"

func offered() []tool {
	return []tool{{Type: "function", Function: function{
		Name: echo, Description: "Gives a nonce back.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"nonce":{"type":"string"}},"required":["nonce"]}`),
	}}}
}

// tools checks that the model calls a function and returns text when it has received the function's result.
func (c Caller) tools(ctx context.Context, m mask, s Settings, endpoint string) error {
	raw := make([]byte, 8)
	if _, err := io.ReadFull(c.Rand, raw); err != nil {
		return errors.New("cannot generate a nonce")
	}
	nonce := hex.EncodeToString(raw)
	prompt := textMessage("user", "Call the function "+echo+" with the nonce "+nonce+", then state in one sentence what it returned.")
	in := chatRequest{
		Messages: []message{prompt}, Tools: offered(),
		ToolChoice: tool{Type: "function", Function: function{Name: echo}},
	}
	got, err := c.complete(ctx, m, s, endpoint, in)
	if isRefused(err) {
		in.ToolChoice = "auto"
		got, err = c.complete(ctx, m, s, endpoint, in)
	}
	if err != nil {
		return err
	}
	made, err := m.called(got, nonce)
	if err != nil {
		return err
	}
	result := textMessage("tool", `{"nonce":"`+nonce+`"}`)
	result.ToolCallID = made.ID
	in.ToolChoice, in.Messages = nil, []message{prompt, {Role: "assistant", ToolCalls: []call{made}}, result}
	if got, err = c.complete(ctx, m, s, endpoint, in); err != nil {
		return fmt.Errorf("send the function result to the model: %w", err)
	}
	if strings.TrimSpace(got.text()) == "" {
		return errors.New("the model returned no text after it received the function result")
	}
	return nil
}

// isRefused reports whether the upstream rejected the format of the request, so that another format may succeed.
func isRefused(err error) bool {
	var r refusal
	if !errors.As(err, &r) {
		return false
	}
	switch r.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return false
	}
	return r.status >= 400 && r.status <= 499 || r.status == http.StatusNotImplemented
}

// called returns the model's function call, or an error if the model did not make the requested call.
func (m mask) called(c completion, nonce string) (call, error) {
	calls := c.Choices[0].Message.ToolCalls
	if len(calls) == 0 {
		if text := prefix(m.text(c.text(), maxRead), maxSample); text != "" {
			return call{}, fmt.Errorf("the model replied with text instead of a function call: %s", text)
		}
		return call{}, errors.New("the model returned neither a function call nor text")
	}
	made := calls[0]
	var arguments struct {
		Nonce *string `json:"nonce"`
	}
	switch {
	case made.Function.Name != echo:
		return call{}, fmt.Errorf("the model called %q, which was not offered", m.text(made.Function.Name, 128))
	case made.ID == "":
		return call{}, errors.New("the function call has no id")
	case json.Unmarshal([]byte(made.Function.Arguments), &arguments) != nil:
		return call{}, fmt.Errorf("the arguments of the function call are not the expected JSON: %s", m.text(made.Function.Arguments, maxSample))
	case arguments.Nonce == nil || *arguments.Nonce != nonce:
		return call{}, fmt.Errorf("the model called the function with a different nonce: %s", m.text(made.Function.Arguments, maxSample))
	}
	made.Type = "function"
	return made, nil
}
