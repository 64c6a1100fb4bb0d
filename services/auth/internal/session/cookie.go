package session

import (
	"context"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// SetRefreshCookie gives the caller's browser the refresh token of a session that was opened otherwise than
// by this server's own methods.
func (s *Server) SetRefreshCookie(ctx context.Context, refresh secret.String) error {
	return s.setCookie(ctx, refresh.Reveal(), RefreshTTL)
}
