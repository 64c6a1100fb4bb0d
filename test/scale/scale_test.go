package scale

import (
	"context"
	"testing"

	"github.com/signalbox-dev/signalbox/test/blobtest"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// measurement is a named method that measures an installation.
type measurement struct {
	name string
	run  func(h *harness, ctx context.Context, t *testing.T)
}

// TestScale_oneProcess measures an installation in a single process. The measurements that insert jobs come last,
// because those jobs stay queued.
func TestScale_oneProcess(t *testing.T) {
	h := newHarness(t.Context(), t, testenv.Single(t, testenv.Options{}))
	for _, m := range []measurement{
		{"calls", (*harness).callRate},
		{"sign-ins", (*harness).manySignIns},
		{"reports", (*harness).reportsBesideOthers},
		{"files of a dataset", (*harness).startWithManyFiles},
		{"works with many files", (*harness).worksWithManyFiles},
		{"long queue", (*harness).longQueue},
		{"list of jobs", (*harness).listOfJobs},
	} {
		t.Run(m.name, func(t *testing.T) { m.run(h, t.Context(), t) })
	}
}

// TestScale_services measures an installation with one process per service.
func TestScale_services(t *testing.T) {
	h := newHarness(t.Context(), t, testenv.Split(t, testenv.Options{}))
	for _, m := range []measurement{{"charts", (*harness).chartMemory}, {"tokens", (*harness).manyTokens}} {
		t.Run(m.name, func(t *testing.T) { m.run(h, t.Context(), t) })
	}
}

// TestScale_objectStore measures an installation whose objects are on an S3 server.
func TestScale_objectStore(t *testing.T) {
	c := blobtest.StartGateway(t).Bucket(t, "signalbox")
	h := newHarness(t.Context(), t, testenv.Single(t, testenv.Options{Env: map[string]string{
		"SERVICE_BLOB_DRIVER": "s3", "SERVICE_BLOB_S3_ENDPOINT": c.Endpoint, "SERVICE_BLOB_S3_BUCKET": c.Bucket,
		"SERVICE_BLOB_S3_REGION": c.Region, "SERVICE_BLOB_S3_ACCESS_KEY": c.AccessKey,
		"SERVICE_BLOB_S3_SECRET_KEY": c.SecretKey.Reveal(), "SERVICE_BLOB_S3_PLAINTEXT": "true", "SERVICE_BLOB_S3_PATH_STYLE": "true",
	}}))
	t.Run("files of a dataset", func(t *testing.T) { h.startWithManyFiles(t.Context(), t) })
}
