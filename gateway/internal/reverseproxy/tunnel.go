package reverseproxy

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// namesWebSocket reports whether WebSocket is among the protocols of a header Upgrade.
func namesWebSocket(upgrade []string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(upgrade, ","), ","), func(protocol string) bool {
		name, _, _ := strings.Cut(protocol, "/")
		return strings.EqualFold(strings.TrimSpace(name), "websocket")
	})
}

// websocket reports whether a request may be upgraded to WebSocket, the only upgrade that is allowed. A request with a body
// may not, because its body could still be read while the connection is taken over.
func websocket(r *http.Request) bool {
	protocols := r.Header.Values("Upgrade")
	return r.Method == http.MethodGet && r.ContentLength == 0 && len(protocols) == 1 && strings.EqualFold(protocols[0], "websocket") &&
		slices.ContainsFunc(strings.Split(strings.Join(r.Header.Values("Connection"), ","), ","), func(token string) bool {
			return strings.EqualFold(strings.TrimSpace(token), "upgrade")
		})
}

// tunnel forwards the bytes of an upgraded connection until either side ends it. The service checks the bytes, because
// it parses the WebSocket frames.
func (r *Relay) tunnel(w http.ResponseWriter, in *http.Request, resp *http.Response) {
	up, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || !websocket(in) {
		_ = resp.Body.Close()
		r.fail(w, in, fault.New(fault.Dependency, "", "%s switched protocols although the client did not request a WebSocket", r.up.Service))
		return
	}
	defer func() { _ = up.Close() }() // the tunnel has ended, so an error does not matter
	down, pending, err := http.NewResponseController(w).Hijack()
	if err != nil {
		r.fail(w, in, fmt.Errorf("take over the client's connection: %w", err))
		return
	}
	defer func() { _ = down.Close() }()
	resp.Body = nil
	if err := head(pending.Writer, resp); err != nil {
		r.log.DebugContext(in.Context(), "client disconnected before its connection was upgraded", slog.Any("error", err))
		return
	}
	both(in.Context(), up, down, io.MultiReader(io.LimitReader(pending.Reader, int64(pending.Reader.Buffered())), down))
}

type flusher interface {
	io.Writer
	Flush() error
}

func head(w flusher, resp *http.Response) error {
	if err := resp.Write(w); err != nil {
		return fmt.Errorf("write the upgrade response: %w", err)
	}
	return w.Flush()
}

// both forwards bytes in both directions until one direction or ctx ends. It then closes both connections and waits
// until no more bytes are forwarded.
func both(ctx context.Context, up io.ReadWriteCloser, down net.Conn, fromClient io.Reader) {
	var wg sync.WaitGroup
	hangUp := sync.OnceFunc(func() { _, _ = up.Close(), down.Close() })
	defer context.AfterFunc(ctx, hangUp)()
	wg.Go(func() { defer hangUp(); _, _ = io.Copy(up, fromClient) })
	wg.Go(func() { defer hangUp(); _, _ = io.Copy(down, up) })
	wg.Wait()
}
