package objectstore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/blob/objectstore"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/blobtest"
)

const s3Limit = 8 << 20

var _ blob.Store = (*objectstore.S3Store)(nil)

func s3Open(t *testing.T, settings conf.S3, transport http.RoundTripper) *objectstore.S3Store {
	t.Helper()
	store, err := objectstore.OpenS3(objectstore.S3Config{S3: settings, Limit: s3Limit, Clock: clock.Real(), Transport: transport})
	require.NoError(t, err)
	return store
}

func TestStore_versitygw(t *testing.T) {
	t.Parallel()
	gateway := blobtest.StartGateway(t)
	var buckets atomic.Int32
	bucket := func(t *testing.T) conf.S3 {
		t.Helper()
		return gateway.Bucket(t, fmt.Sprintf("bucket-%d", buckets.Add(1)))
	}
	t.Run("contract", func(t *testing.T) {
		t.Parallel()
		blobtest.Run(t, func(t *testing.T) blobtest.Harness {
			t.Helper()
			return blobtest.Harness{Store: s3Open(t, bucket(t), nil), Limit: s3Limit, FirstCounts: true}
		})
	})
	t.Run("ready", func(t *testing.T) {
		t.Parallel()
		settings := bucket(t)
		require.NoError(t, s3Open(t, settings, nil).Ready(t.Context()))
		settings.Bucket = "nowhere"
		require.ErrorContains(t, s3Open(t, settings, nil).Ready(t.Context()), "has no bucket nowhere")
	})
	t.Run("wrong credential", func(t *testing.T) {
		t.Parallel()
		settings := bucket(t)
		settings.SecretKey = secret.New("wrong-wrong-wrong")
		_, err := s3Open(t, settings, nil).Stat(t.Context(), "a")
		require.True(t, fault.Is(err, fault.Dependency), "%v", err)
		require.NotContains(t, err.Error(), "wrong-wrong-wrong")
	})
	t.Run("server without checksums", func(t *testing.T) { t.Parallel(); forgetful(t, bucket(t)) })
	t.Run("object replaced", func(t *testing.T) { t.Parallel(); swapped(t, bucket(t)) })
}

func s3Sum(body []byte) string {
	s := sha256.Sum256(body)
	return hex.EncodeToString(s[:])
}

// noChecksums is the transport of a server that does not return checksums.
type noChecksums struct {
	http.RoundTripper
	reads atomic.Int32
}

func (a *noChecksums) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		a.reads.Add(1)
	}
	resp, err := a.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Header.Del("X-Amz-Checksum-Sha256")
	}
	return resp, err
}

func forgetful(t *testing.T, settings conf.S3) {
	t.Helper()
	server := &noChecksums{RoundTripper: &http.Transport{DisableKeepAlives: true}}
	store := s3Open(t, settings, server)
	body := bytes.Repeat([]byte("abc"), 1000)
	require.NoError(t, store.Put(t.Context(), "a", bytes.NewReader(body), 3000, s3Sum(body)))
	for range 3 {
		info, err := store.Stat(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, s3Sum(body), info.SHA256)
	}
	require.Equal(t, int32(1), server.reads.Load(), "the object is read once")
	other := []byte("others")
	require.NoError(t, store.Delete(t.Context(), "a"))
	require.NoError(t, store.Put(t.Context(), "a", bytes.NewReader(other), 6, s3Sum(other)))
	info, err := store.Stat(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, s3Sum(other), info.SHA256, "the digest is computed again for a different object")
}

// swapped checks that the store does not return the digest of an earlier object with the same key.
func swapped(t *testing.T, settings conf.S3) {
	t.Helper()
	store := s3Open(t, settings, nil)
	body, other := []byte("weights"), []byte("poisons")
	require.NoError(t, store.Put(t.Context(), "m", bytes.NewReader(body), 7, s3Sum(body)))
	reader, _, err := store.Get(t.Context(), "m")
	require.NoError(t, err)
	got, err := io.ReadAll(reader)
	require.NoError(t, err)
	require.Equal(t, body, got)
	require.NoError(t, reader.Close())
	require.NoError(t, store.Delete(t.Context(), "m"))
	require.NoError(t, store.Put(t.Context(), "m", bytes.NewReader(other), 7, s3Sum(other)))
	info, err := store.Stat(t.Context(), "m")
	require.NoError(t, err)
	require.Equal(t, s3Sum(other), info.SHA256)
}

func TestStore_unreachableServer(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	store := s3Open(t, conf.S3{
		Endpoint: listener.Addr().String(), Bucket: "bucket", Region: "us-east-1", AccessKey: "a", SecretKey: secret.New("s"), Plaintext: true,
	}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 5e9)
	defer cancel()
	_, err = store.Stat(ctx, "a")
	require.True(t, fault.Is(err, fault.Dependency) || fault.Is(err, fault.Unavailable), "%v", err)
}

func TestOpen_invalidEndpoint(t *testing.T) {
	t.Parallel()
	_, err := objectstore.OpenS3(objectstore.S3Config{S3: conf.S3{Endpoint: "http://h/path"}})
	require.ErrorContains(t, err, "open S3 client")
}
