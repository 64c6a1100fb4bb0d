package rank

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// lookupInterval is the time after which the addresses of a closed work's endpoint are looked up again.
const lookupInterval = 30 * time.Second

// watch passes on what the agent writes while the command runs: a requested stop, because the signal of Slurm may get
// lost, and a new ingest endpoint.
func (r *rankProcess) watch(ctx context.Context) {
	endpoint, looked, grace := r.template.Place.Endpoint, r.Clock.Now(), time.Duration(-1)
	for clock.Sleep(ctx, r.Clock, look) == nil {
		Refresh(r.own)
		Refresh(r.dir)
		if within, requested := (shim.Control{}).Requested(r.own); requested && (grace < 0 || within < grace) {
			grace = within
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM) // the shim, which is this process, reads the file
		}
		moved := false
		if raw, err := os.ReadFile(EndpointFile(r.dir)); err == nil {
			text := strings.TrimSpace(string(raw))
			moved, endpoint = text != endpoint, text
		}
		if moved || r.template.Place.Closed && clock.Since(r.Clock, looked) > lookupInterval {
			looked = r.Clock.Now()
			if err := r.reach(ctx, endpoint); err != nil {
				_, _ = fmt.Fprintln(r.Err, "rank:", err)
			}
		}
	}
}

// reach lets the command reach the endpoint.
func (r *rankProcess) reach(ctx context.Context, endpoint string) error {
	n, err := r.node.Network(ctx, r.template, r.rank, endpoint)
	if err != nil || !n.On() {
		return err
	}
	return shim.Control{}.Reach(r.own, n)
}

// EndpointFile is the path of the file with the current ingest endpoint, if it has moved since the launch.
func EndpointFile(dir string) string { return filepath.Join(dir, "endpoint") }
