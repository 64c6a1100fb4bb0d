package objectstore_test

import (
	"crypto/rand"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/blob/objectstore"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/test/blobtest"
)

const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func deps() objectstore.Deps {
	return objectstore.Deps{
		PublicURL: func() string { return "https://signalbox.example" }, Clock: clock.Real(),
		IDs: id.NewSource(clock.Real(), rand.Reader), Log: slog.New(slog.DiscardHandler),
	}
}

func use(t *testing.T, cfg conf.Blob) objectstore.Opened {
	t.Helper()
	opened, err := objectstore.Open(cfg, deps())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close(t.Context())) })
	require.NoError(t, opened.Ready(t.Context()))
	require.NoError(t, opened.Store.Put(t.Context(), "a", strings.NewReader(""), 0, empty))
	_, err = opened.Store.SignPut(t.Context(), "b", blob.SignOptions{Size: 1<<20 + 1, SHA256: empty})
	require.True(t, fault.Is(err, fault.TooLarge), "MaxMB is the limit: %v", err)
	return opened
}

func TestOpen_fs(t *testing.T) {
	t.Parallel()
	opened := use(t, conf.Blob{Driver: conf.BlobFS, Root: filepath.Join(t.TempDir(), "b"), MaxMB: 1})
	require.NotNil(t, opened.Handler)
	signed, err := opened.Store.SignGet(t.Context(), "a", 0)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(signed.URL, "https://signalbox.example/api/blobs/a?"), signed.URL)
}

func TestOpen_s3(t *testing.T) {
	t.Parallel()
	opened := use(t, conf.Blob{Driver: conf.BlobS3, S3: blobtest.StartGateway(t).Bucket(t, "bucket"), MaxMB: 1})
	require.Nil(t, opened.Handler, "the S3 server serves its own URLs")
}

func TestOpen_errors(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]conf.Blob{
		"BLOB_ROOT: must be set": {Driver: conf.BlobFS},
		"open blob folder":       {Driver: conf.BlobFS, Root: "/dev/null/x"},
		"open S3 client":         {Driver: conf.BlobS3},
		"unknown blob driver":    {Driver: "tape"},
	} {
		_, err := objectstore.Open(cfg, deps())
		require.ErrorContains(t, err, want)
	}
}
