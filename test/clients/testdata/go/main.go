// Command go calls the scenarios of engine.py with the official client for Go, and prints what its user sees as one JSON
// object. It is a module of its own, so that the packages of the client are not those of Signalbox.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

type task struct {
	URL     string   `json:"url"`
	Key     string   `json:"key"`
	SlowURL string   `json:"slow_url"`
	SlowKey string   `json:"slow_key"`
	Headers []string `json:"headers"`
	// Scenarios are the names of those to call.
	Scenarios []string `json:"scenarios"`
}

// outcome is what the user of a client sees.
type outcome struct {
	Kind    string    `json:"kind"`
	Status  int       `json:"status,omitempty"`
	Code    string    `json:"code,omitempty"`
	Text    string    `json:"text"`
	Tokens  int64     `json:"tokens,omitempty"`
	Headers []*string `json:"headers,omitempty"`
}

type user struct {
	task

	client, slow openai.Client
}

func main() {
	var u user
	if err := json.NewDecoder(os.Stdin).Decode(&u.task); err != nil {
		fmt.Fprintln(os.Stderr, "read the task:", err)
		os.Exit(1)
	}
	u.client, u.slow = newClient(u.URL, u.Key), newClient(u.SlowURL, u.SlowKey)
	seen := map[string]outcome{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	all := u.scenarios()
	for _, name := range u.Scenarios {
		wg.Go(func() {
			out, err := all[name](context.Background(), name+"/go")
			explain(&out, err)
			mu.Lock()
			defer mu.Unlock()
			seen[name] = out
		})
	}
	wg.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		os.Exit(1)
	}
}

func newClient(url, key string) openai.Client {
	return openai.NewClient(option.WithBaseURL(url), option.WithAPIKey(key), option.WithMaxRetries(2), option.WithRequestTimeout(2*time.Minute))
}

// of returns the client for the scenario of the model.
func (u *user) of(model string) openai.Client {
	if strings.HasPrefix(model, "late/") || strings.HasPrefix(model, "pause/") {
		return u.slow
	}
	return u.client
}

func explain(out *outcome, err error) {
	var refused *openai.Error
	switch {
	case err == nil:
		out.Kind = "result"
	case errors.As(err, &refused):
		out.Kind, out.Status, out.Code = "Error", refused.StatusCode, refused.Code
	default:
		for next := err; next != nil; next = errors.Unwrap(next) {
			err = next
		}
		out.Kind = fmt.Sprintf("%T", err)
		if strings.HasPrefix(err.Error(), "received error while streaming") {
			out.Code = "in the stream"
		}
	}
}

func (u *user) scenarios() map[string]func(context.Context, string) (outcome, error) {
	all := map[string]func(context.Context, string) (outcome, error){
		"plain": u.headers, "response": u.response, "responses": u.responses, "embedding": u.embedding, "slash": u.slash,
		"early": u.early, "audio": u.audio, "model": u.model,
	}
	for _, name := range []string{"compressed", "redirect", "limit", "busy", "final", "missing", "page", "lost", "late"} {
		all[name] = u.whole
	}
	for _, name := range []string{"stream", "cut", "border", "failure", "pause"} {
		all[name] = u.streamed
	}
	return all
}

func chat(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hi")}}
}

func (u *user) whole(ctx context.Context, model string) (outcome, error) {
	client := u.of(model)
	answer, err := client.Chat.Completions.New(ctx, chat(model))
	if err != nil {
		return outcome{}, err
	}
	return outcome{Text: answer.Choices[0].Message.Content, Tokens: answer.Usage.TotalTokens}, nil
}

func (u *user) headers(ctx context.Context, model string) (outcome, error) {
	var raw *http.Response
	answer, err := u.client.Chat.Completions.New(ctx, chat(model), option.WithResponseInto(&raw))
	if err != nil {
		return outcome{}, err
	}
	out := outcome{Text: answer.Choices[0].Message.Content, Tokens: answer.Usage.TotalTokens}
	for _, name := range u.Headers {
		var value *string
		if got := raw.Header.Values(name); len(got) > 0 {
			value = &got[0]
		}
		out.Headers = append(out.Headers, value)
	}
	return out, nil
}

func (u *user) streamed(ctx context.Context, model string) (outcome, error) {
	var out outcome
	client := u.of(model)
	stream := client.Chat.Completions.NewStreaming(ctx, chat(model))
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			out.Text += choice.Delta.Content
		}
		out.Tokens = max(out.Tokens, stream.Current().Usage.TotalTokens)
	}
	return out, stream.Err()
}

func respond(model string) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Hi")}}
}

func (u *user) response(ctx context.Context, model string) (outcome, error) {
	answer, err := u.client.Responses.New(ctx, respond(model))
	if err != nil {
		return outcome{}, err
	}
	return outcome{Text: answer.OutputText(), Tokens: answer.Usage.TotalTokens}, nil
}

func (u *user) responses(ctx context.Context, model string) (outcome, error) {
	var out outcome
	stream := u.client.Responses.NewStreaming(ctx, respond(model))
	for stream.Next() {
		switch event := stream.Current(); event.Type {
		case "response.output_text.delta":
			out.Text += event.Delta
		case "response.completed":
			out.Tokens = event.Response.Usage.TotalTokens
		}
	}
	return out, stream.Err()
}

func (u *user) embedding(ctx context.Context, model string) (outcome, error) {
	input := openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: make([]string, 64)}
	answer, err := u.client.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: model, Input: input})
	if err != nil {
		return outcome{}, err
	}
	return outcome{Text: fmt.Sprintf("%d x %d", len(answer.Data), len(answer.Data[0].Embedding)), Tokens: answer.Usage.TotalTokens}, nil
}

func (u *user) slash(ctx context.Context, model string) (outcome, error) {
	var answer openai.ChatCompletion
	err := u.client.Post(ctx, "chat/completions/", chat(model), &answer)
	return outcome{Text: answer.ID}, err
}

func (u *user) early(ctx context.Context, _ string) (outcome, error) {
	var answer json.RawMessage
	err := u.client.Post(ctx, "early", map[string]string{"text": strings.Repeat("x", 900_000)}, &answer)
	return outcome{}, err
}

func (u *user) audio(ctx context.Context, model string) (outcome, error) {
	file := openai.File(bytes.NewReader(bytes.Repeat([]byte("RIFF"), 100)), "a.wav", "audio/wav")
	answer, err := u.client.Audio.Transcriptions.New(ctx, openai.AudioTranscriptionNewParams{Model: model, File: file})
	if err != nil {
		return outcome{}, err
	}
	return outcome{Text: answer.Text}, nil
}

func (u *user) model(ctx context.Context, _ string) (outcome, error) {
	answer, err := u.client.Models.Get(ctx, "org/100%")
	if err != nil {
		return outcome{}, err
	}
	return outcome{Text: answer.ID}, nil
}
