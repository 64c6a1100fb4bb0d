package authn

import (
	"context"
	"time"
)

// MetadataCaller is the metadata key of the caller token between the gateway and the services.
const MetadataCaller = "x-service-caller"

// AnonymousLife is how long a gateway that holds no lease may reuse the auth service's response for callers without a
// credential. The call that begins maintenance returns only after that time, so that no gateway then still uses a
// response from before the maintenance.
const AnonymousLife = 250 * time.Millisecond

type (
	callerKey struct{}
	tokenKey  struct{}
)

// NewContext returns a context that carries the caller.
func NewContext(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// FromContext returns the caller of a request. The result ok is false in background work, which acts as the service.
func FromContext(ctx context.Context) (*Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(*Caller)
	return c, ok && c != nil
}

// CallerOf returns the caller of a request, or a caller of KindNone. The result is never nil and must not be modified.
func CallerOf(ctx context.Context) *Caller {
	if c, ok := FromContext(ctx); ok {
		return c
	}
	return &Caller{Kind: KindNone}
}

type carried struct {
	raw     string
	expires time.Time
}

// WithToken returns a context that carries the caller's signed token, for calls made on behalf of this request.
func WithToken(ctx context.Context, raw string, expires time.Time) context.Context {
	return context.WithValue(ctx, tokenKey{}, carried{raw, expires})
}

// Token returns the token to forward, or "" if ctx has no token or the token has expired. If a stream outlives its
// token, its later calls are made without a caller, as the service.
func Token(ctx context.Context, now time.Time) string {
	c, ok := ctx.Value(tokenKey{}).(carried)
	if !ok || !now.Before(c.expires) {
		return ""
	}
	return c.raw
}

// Background returns a context without caller and token, for work that acts as the service.
func Background(ctx context.Context) context.Context {
	return context.WithValue(context.WithValue(ctx, callerKey{}, (*Caller)(nil)), tokenKey{}, nil)
}
