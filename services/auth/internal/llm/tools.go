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

// request is a request for a completion, with no member that an upstream may not know.
type request struct {
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

func said(role, text string) message { return message{Role: role, Content: &text} }

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

// completion is the part of an answer that is looked at.
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

// completion reads the answer of a good status.
func (m mask) completion(a answer) (completion, error) {
	var out completion
	var wrong *json.UnmarshalTypeError
	err := json.Unmarshal(a.body, &out)
	switch {
	case errors.As(err, &wrong):
		return out, fmt.Errorf("the answer has another shape than a chat completion, at %s; the upstream says: %s", wrong.Field, m.words(a.body))
	case err != nil:
		return out, fmt.Errorf("the answer is no JSON (%s); the upstream says: %s", m.text(a.typ, 128), m.words(a.body))
	case len(out.Choices) == 0 || out.Choices[0].Message == nil:
		return out, fmt.Errorf("the answer has another shape than a chat completion, it has no choices[0].message; the upstream says: %s", m.words(a.body))
	}
	return out, nil
}

// echo is the one function that the model is offered.
const echo = "echo_nonce"

func offered() []tool {
	return []tool{{Type: "function", Function: function{
		Name: echo, Description: "Gives a nonce back.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"nonce":{"type":"string"}},"required":["nonce"]}`),
	}}}
}

// tools finds out whether the model calls a function and goes on from its result.
func (c Caller) tools(ctx context.Context, m mask, s Settings, endpoint string) error {
	raw := make([]byte, 8)
	if _, err := io.ReadFull(c.Rand, raw); err != nil {
		return errors.New("no nonce could be drawn")
	}
	nonce := hex.EncodeToString(raw)
	asked := said("user", "Call the function "+echo+" with the nonce "+nonce+", then tell in one sentence what it gave back.")
	in := request{
		Messages: []message{asked}, Tools: offered(),
		ToolChoice: tool{Type: "function", Function: function{Name: echo}},
	}
	got, err := c.ask(ctx, m, s, endpoint, in)
	if isRefused(err) {
		in.ToolChoice = "auto"
		got, err = c.ask(ctx, m, s, endpoint, in)
	}
	if err != nil {
		return err
	}
	made, err := m.called(got, nonce)
	if err != nil {
		return err
	}
	result := said("tool", `{"nonce":"`+nonce+`"}`)
	result.ToolCallID = made.ID
	in.ToolChoice, in.Messages = nil, []message{asked, {Role: "assistant", ToolCalls: []call{made}}, result}
	if got, err = c.ask(ctx, m, s, endpoint, in); err != nil {
		return fmt.Errorf("after the function's result: %w", err)
	}
	if strings.TrimSpace(got.text()) == "" {
		return errors.New("after the function's result: the model answered without a text")
	}
	return nil
}

// isRefused says whether an upstream did not take the request as it was; it may take another.
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

// called is the call of the function that the model made.
func (m mask) called(c completion, nonce string) (call, error) {
	calls := c.Choices[0].Message.ToolCalls
	if len(calls) == 0 {
		if text := begin(m.text(c.text(), maxRead), maxSample); text != "" {
			return call{}, fmt.Errorf("the model answered in prose: %s", text)
		}
		return call{}, errors.New("the model called nothing and said nothing")
	}
	made := calls[0]
	var arguments struct {
		Nonce *string `json:"nonce"`
	}
	switch {
	case made.Function.Name != echo:
		return call{}, fmt.Errorf("the model called %q, which it was not offered", m.text(made.Function.Name, 128))
	case made.ID == "":
		return call{}, errors.New("the model's call has no id")
	case json.Unmarshal([]byte(made.Function.Arguments), &arguments) != nil:
		return call{}, fmt.Errorf("the arguments of the model's call are no JSON: %s", m.text(made.Function.Arguments, maxSample))
	case arguments.Nonce == nil || *arguments.Nonce != nonce:
		return call{}, fmt.Errorf("the model called with another nonce than the one it was given: %s", m.text(made.Function.Arguments, maxSample))
	}
	made.Type = "function"
	return made, nil
}
