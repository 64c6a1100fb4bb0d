package blobtest

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	script  = "scripts/tools/s3server.sh"
	tries   = 5
	startup = 20 * time.Second
)

// Gateway is an S3 server that runs for one test.
type Gateway struct{ settings conf.S3 }

// StartGateway starts versitygw with a temporary folder. The server stops when the test ends.
func StartGateway(t *testing.T) *Gateway {
	t.Helper()
	// The script builds the server if it is missing. If another process is already building it, the script waits for
	// that build.
	path, err := exec.CommandContext(t.Context(), filepath.Join(root(t), script)).Output()
	require.NoError(t, err, script)
	program := strings.TrimSpace(string(path))
	var out bytes.Buffer
	for range tries {
		g := &Gateway{conf.S3{
			Endpoint: freeAddr(t), Region: "us-east-1", Plaintext: true, PathStyle: true,
			AccessKey: "signalbox-test", SecretKey: secret.New("secret-of-the-test-only"),
		}}
		out.Reset()
		if g.start(t, program, &out) {
			return g
		}
	}
	t.Fatalf("versitygw did not start: %s", out.String())
	return nil
}

// Bucket creates a bucket and returns the settings to access it.
func (g *Gateway) Bucket(t *testing.T, name string) conf.S3 {
	t.Helper()
	client, err := minio.New(g.settings.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(g.settings.AccessKey, g.settings.SecretKey.Reveal(), ""), Region: g.settings.Region,
	})
	require.NoError(t, err)
	require.NoError(t, client.MakeBucket(t.Context(), name, minio.MakeBucketOptions{Region: g.settings.Region}))
	settings := g.settings
	settings.Bucket = name
	return settings
}

func (g *Gateway) start(t *testing.T, program string, out *bytes.Buffer) bool {
	t.Helper()
	dir := t.TempDir()
	data, meta := filepath.Join(dir, "data"), filepath.Join(dir, "meta")
	require.NoError(t, errors.Join(os.Mkdir(data, 0o700), os.Mkdir(meta, 0o700)))
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, g.settings.Endpoint, data, meta)
	cmd.Env = []string{"ROOT_ACCESS_KEY=" + g.settings.AccessKey, "ROOT_SECRET_KEY=" + g.settings.SecretKey.Reveal()}
	cmd.Stdout, cmd.Stderr = out, out
	dieWithParent(cmd)
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the cleanup kills the server; any other exit is explained in its output
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return g.serves(t, ended)
}

func (g *Gateway) serves(t *testing.T, ended <-chan struct{}) bool {
	t.Helper()
	for deadline := time.Now().Add(startup); time.Now().Before(deadline); {
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.settings.Endpoint, nil)
		require.NoError(t, err)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			require.NoError(t, resp.Body.Close())
			return true
		}
	}
	return false
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // only the port number is needed
	return l.Addr().String()
}

// root returns the root folder of the checkout, which contains go.work.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("go.work not found in any parent folder")
		}
		dir = parent
	}
}
