package soak_test

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// visitor returns a round that opens a playground session, calls its target, reads the transcript and ends the session.
func (h *harness) visitor() func(ctx context.Context, n int) error {
	return func(ctx context.Context, _ int) error {
		l := *h.source.l
		session := struct{ ID, State string }{}
		target := map[string]any{
			"source": map[string]any{"model_id": h.source.version.ModelID, "version": h.source.version.Version}, "serving": serving(),
		}
		if err := l.Client.Post(ctx, "/api/playground/sessions", map[string]any{"ttl_s": 900, "targets": []any{target}}, &session); err != nil {
			return err
		}
		path := "/api/playground/sessions/" + session.ID
		for session.State != "ready" {
			if err := clock.Sleep(ctx, l.Clock, 100*time.Millisecond); err != nil {
				return err
			}
			if err := l.Client.Get(ctx, path, nil, &session); err != nil {
				return err
			}
			if session.State == "failed" {
				return errors.New("the session failed")
			}
		}
		question := map[string]any{"model": "default", "messages": []any{map[string]any{"role": "user", "content": "hello"}}}
		return errors.Join(
			h.expect(ctx, &l, http.StatusOK, http.MethodPost, path+"/targets/1/v1/chat/completions", question),
			h.expect(ctx, &l, http.StatusOK, http.MethodGet, path+"/transcript", nil),
			h.expect(ctx, &l, http.StatusNoContent, http.MethodDelete, path, nil),
		)
	}
}
