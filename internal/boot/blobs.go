package boot

import (
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/blob/driver"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/run"
)

// OpenBlobs opens the object store. If the store needs an HTTP handler, the gateway serves the result's Handler.
func (e *Env) OpenBlobs(closers *run.Closers, c conf.Blob) (driver.Opened, error) {
	opened, err := driver.Open(c, driver.Deps{PublicURL: e.PublicURL, Clock: e.Clock, IDs: e.IDs, Log: e.Log})
	if err != nil {
		return driver.Opened{}, fmt.Errorf("open the object store: %w", err)
	}
	if opened.Close != nil {
		closers.Add("object store", opened.Close)
	}
	e.Blobs = opened.Store
	return opened, nil
}
