package boot

import (
	"context"
	"time"

	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/retention"
)

// Aging is a service with rows of its own that are deleted when they reach an age.
type Aging interface{ Retention() []retention.Rule }

// retention returns the worker that deletes the old rows of a service: its events, which every service has, and what
// its own rules name.
func (e *Env) retention(svc Service) (process.Worker, error) {
	rules := []retention.Rule{{
		Name: "event", Age: e.EventAge,
		Step: func(ctx context.Context, before time.Time, limit int) (int64, error) {
			return event.DeleteBefore(ctx, e.Pool, before, limit)
		},
	}}
	if own, ok := svc.(Aging); ok {
		rules = append(rules, own.Retention()...)
	}
	w, err := retention.New(e.Clock, e.Log, e.Obs.Meter, rules...)
	if err != nil {
		return process.Worker{}, err
	}
	return process.Worker{Name: e.Name + ".retention", Run: w.Run}, nil
}
