package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/logview"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

type chatOptions struct {
	system      string
	temperature float64
	maxTokens   int
}

func (t *tool) chat() *cobra.Command {
	var o chatOptions
	k := deploymentKind()
	cmd := &cobra.Command{
		Use: "chat DEPLOYMENT [MESSAGE]", GroupID: groupModels, Short: "Talk to a deployment", Args: arguments(1, 2),
		Long: `Talk to a deployment. With a message, its response is printed; without one, each line that you type is a message, until Ctrl-D.

The deployment counts these calls under a token that is made for this conversation and revoked at its end.`,
		Example: "signalbox chat my-bot '27+46?'\nsignalbox chat my-bot --system 'Be brief.'", ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && strings.TrimSpace(args[1]) == "" {
				return session.Usage("the message is empty; an unset variable?")
			}
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			return t.withToken(cmd.Context(), c, id, func(ctx context.Context, caller *client.Client) error {
				talk := &dialogue{t: t, c: caller, deployment: id, o: o}
				if o.system != "" {
					talk.messages = []client.ChatMessage{{Role: "system", Content: o.system}}
				}
				if len(args) > 1 {
					return talk.send(ctx, args[1])
				}
				return talk.lines(ctx)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.system, "system", "", "system message")
	f.Float64Var(&o.temperature, "temperature", 0, "0 for the most probable words")
	f.IntVar(&o.maxTokens, "max-tokens", defaultTokens, "maximum number of tokens of a response")
	return cmd
}

const (
	defaultTokens = 512
	// revokeTimeout is how long the end of the token may take, also after Ctrl-C.
	revokeTimeout = 10 * time.Second
)

// withToken creates a token of a deployment, calls fn with a client that uses it, and revokes it.
func (t *tool) withToken(ctx context.Context, c *client.Client, deployment string, fn func(context.Context, *client.Client) error) (err error) {
	path := deploymentKind().path + "/" + url.PathEscape(deployment) + "/tokens"
	var made struct {
		ID    string `json:"id"`
		Token string `json:"token"`
	}
	if err := c.Post(ctx, path, map[string]any{"name": "signalbox chat"}, &made); err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
		defer cancel()
		if failed := c.Do(ending, http.MethodDelete, path+"/"+url.PathEscape(made.ID), nil, nil); failed != nil {
			t.Say("the token %s of this conversation was not revoked (%s); run: signalbox deployments tokens revoke %s %s", made.ID, failed, deployment, made.ID)
			err = errors.Join(err, failed)
		}
	}()
	return fn(ctx, c.With(secret.New(made.Token)))
}

// dialogue is a chat with its messages so far.
type dialogue struct {
	t          *tool
	c          *client.Client
	deployment string
	o          chatOptions
	messages   []client.ChatMessage
}

// maxMessage is the maximum size of a line that is a message, in bytes.
const maxMessage = 1 << 20

// lines sends each line of standard input.
func (v *dialogue) lines(ctx context.Context) error {
	in := bufio.NewReader(io.LimitReader(v.t.In, maxMessage))
	if v.t.InTerminal {
		v.t.Say("type a message and Enter; Ctrl-D ends the conversation")
	}
	for {
		if v.t.InTerminal && v.t.ErrTerminal {
			fmt.Fprint(v.t.Err, "> ")
		}
		line, err := in.ReadString('\n')
		if text := strings.TrimSpace(line); text != "" {
			if err := v.send(ctx, text); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read a message: %w", err)
		}
	}
}

// send sends a message and prints the response as it arrives.
func (v *dialogue) send(ctx context.Context, text string) error {
	v.messages = append(v.messages, client.ChatMessage{Role: "user", Content: text})
	in := client.ChatRequest{Model: "default", Messages: v.messages, Temperature: v.o.temperature, MaxTokens: v.o.maxTokens}
	p, err := v.t.Printer()
	if err != nil {
		return err
	}
	asText := p.ForPeople()
	var response strings.Builder
	err = v.c.Converse(ctx, v.deployment, in, func(part string) error {
		response.WriteString(part)
		if !asText {
			return nil
		}
		if v.t.OutTerminal {
			part = logview.Harmless(part)
		}
		_, err := io.WriteString(v.t.Out, part)
		return err
	})
	if err != nil {
		return err
	}
	message := client.ChatMessage{Role: "assistant", Content: response.String()}
	v.messages = append(v.messages, message)
	if !asText {
		raw, err := json.Marshal(message)
		if err != nil {
			return fmt.Errorf("print the response: %w", err)
		}
		return p.Row(nil, raw)
	}
	_, err = io.WriteString(v.t.Out, "\n")
	return err
}
