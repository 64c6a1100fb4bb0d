package authn

import (
	"context"
	"time"
)

// MetadataCaller is the metadata key of the caller token between the edge and the services.
const MetadataCaller = "x-service-caller"

type (
	callerKey struct{}
	tokenKey  struct{}
)

// NewContext puts the caller into a context.
func NewContext(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// FromContext is the caller of a request. It is false in background work, which acts as the service.
func FromContext(ctx context.Context) (*Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(*Caller)
	return c, ok && c != nil
}

// Of is the caller of a request, or one of kind none. It is never nil and must not be changed.
func Of(ctx context.Context) *Caller {
	if c, ok := FromContext(ctx); ok {
		return c
	}
	return &Caller{Kind: KindNone}
}

type carried struct {
	raw     string
	expires time.Time
}

// WithToken keeps the signed token of the caller, for the calls that this request makes.
func WithToken(ctx context.Context, raw string, expires time.Time) context.Context {
	return context.WithValue(ctx, tokenKey{}, carried{raw, expires})
}

// Token is the token to forward, or empty when there is none that still holds: a stream that lives
// longer than its caller's token goes on as the service.
func Token(ctx context.Context, now time.Time) string {
	c, ok := ctx.Value(tokenKey{}).(carried)
	if !ok || !now.Before(c.expires) {
		return ""
	}
	return c.raw
}

// Background drops caller and token: what is started from here acts as the service.
func Background(ctx context.Context) context.Context {
	return context.WithValue(context.WithValue(ctx, callerKey{}, (*Caller)(nil)), tokenKey{}, nil)
}
