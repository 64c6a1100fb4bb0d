package host

import (
	"errors"
	"io/fs"
	"time"

	"github.com/signalbox-dev/signalbox/agent/host/files"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// collecting is since when the rest of the log is being delivered.
type collecting struct {
	Since time.Time `json:"since"`
}

// lastTry is what every executor gives a log, however long the machine was off: what lies ready is
// tried once more before it is given up.
const lastTry = time.Minute

// collectTime is how long the rest of the log may still be delivered. It counts from the first time that
// this was asked, by whichever executor: restarts make it no longer but for a last try.
func (w *work) collectTime() (time.Duration, error) {
	var c collecting
	err := files.ReadJSON(w.path("collecting.json"), &c)
	if errors.Is(err, fs.ErrNotExist) {
		c.Since = w.host.deps.Clock.Now()
		err = files.WriteJSON(w.path("collecting.json"), c, files.Private)
	}
	whole := w.host.cfg.CollectTimeout
	left := whole - clock.Since(w.host.deps.Clock, c.Since)
	return min(whole, max(left, lastTry)), err
}
