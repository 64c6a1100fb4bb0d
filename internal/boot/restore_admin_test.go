package boot

import (
	"context"
	"crypto/rand"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// restoredProcess returns a process whose database was restored, before awaitRestore, and its Spec.
func restoredProcess(t *testing.T, admin string) (*Process, Spec) {
	t.Helper()
	files := fstest.MapFS{"00001_thing.sql": &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE thing (n int);\n")}}
	h := &restoreHarness{
		t: t, dir: filepath.Join(t.TempDir(), "audit"), bus: rpc.Memory(rpc.ClientOptions{Clock: clock.Real()}),
		db: pgtest.New(t, pgtest.Schema{Name: "auth", Migrations: files}),
	}
	before, end := h.open()
	_, err := AwaitRestore(t.Context(), before.Clock, before.Log, nil, before)
	require.NoError(t, err)
	_, err = h.db.OwnerPool("auth").Exec(t.Context(), `INSERT INTO revocation (kind, subject) VALUES ('x', 'y')`)
	require.NoError(t, err)
	require.NoError(t, before.revocations.RunOnce(t.Context()))
	end()
	_, err = h.db.OwnerPool("auth").Exec(t.Context(), `DELETE FROM revocation`)
	require.NoError(t, err)

	_, env := installation(t, "auth")
	env = with(env, "SERVICE_AUTH_LISTEN", free(t), "SERVICE_ADMIN_LISTEN", admin, "SERVICE_AUDIT_DIR", h.dir, "SERVICE_AUTH_DATABASE_URL", h.db.URL("auth").Reveal())
	spec := Spec{Name: "auth", Config: &struct{}{}, Migrations: func() (fs.FS, error) { return files, nil }}
	p := &Process{Closers: &process.Closers{}}
	t.Cleanup(func() { Close(context.WithoutCancel(t.Context()), p.Closers) })
	p.Loaded, err = p.load(t.Context(), spec, conf.Map(env))
	require.NoError(t, err)
	o, clk := telemetry(t, io.Discard), clock.Real()
	p.Wire, err = p.wire(clk, o)
	require.NoError(t, err)
	p.Env = NewEnv("auth", o, clk, id.NewSource(clk, rand.Reader), p.Wire)
	p.Sealing, err = OpenSealing(p.Settings.Audit)
	require.NoError(t, err)
	require.NoError(t, p.OpenPool(t.Context(), p.Closers, p.Own.Postgres, true))
	return p, spec
}

// Kubernetes kills a pod that does not respond to its probes, so a process in maintenance has to respond.
func TestProcess_awaitRestore_opensAdminListener(t *testing.T) {
	t.Parallel()
	admin := free(t)
	p, spec := restoredProcess(t, admin)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := p.awaitRestore(ctx, spec)
		done <- err
	}()
	require.Eventually(t, func() bool {
		status, _, err := get(t.Context(), "http://"+admin+"/healthz")
		return err == nil && status == http.StatusOK
	}, patience, 10*time.Millisecond)
	status, body, err := get(t.Context(), "http://"+admin+"/readyz")
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "an administrator of the machine must run signalbox-setup restored")
	cancel()
	require.NoError(t, <-done)
	again, err := OpenAdmin(t.Context(), admin, p.Obs, p.Clock, nil, 0)
	require.NoError(t, err, "the listener is closed, so that the one of the serving process can open")
	ended, end := context.WithCancel(t.Context())
	end()
	require.NoError(t, again.Run(ended))
}

func TestProcess_awaitRestore_reportsTakenAdminAddress(t *testing.T) {
	t.Parallel()
	l := listener(t)
	t.Cleanup(func() { _ = l.Close() })
	p, spec := restoredProcess(t, l.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := p.awaitRestore(ctx, spec)
	require.ErrorContains(t, err, "open the admin listener on "+l.Addr().String())
}
