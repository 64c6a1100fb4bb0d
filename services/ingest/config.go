package ingest

import (
	"errors"

	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/follow"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
)

// Config holds the settings of the ingest service.
type Config struct {
	RedisURL secret.String `env:"SERVICE_REDIS_URL" doc:"URL of an optional Redis server, which shortens the delay of live readers, as redis://[user:password@]host:port/db"`
	// DigestDays is the age in days at which the digests of numbered reports are deleted; 0 keeps them.
	DigestDays float64 `env:"SERVICE_INGEST_DIGEST_DAYS, default=30" doc:"days until the digest of a numbered report is deleted; until then, a different body with the same number is rejected; 0 keeps the digest forever"`
	// ObjectDays is the age in days at which stored objects without references are deleted; 0 keeps them.
	ObjectDays float64 `env:"SERVICE_OBJECT_DAYS, default=1" doc:"days until a stored object that nothing refers to is deleted; use at least 1 outside of tests; 0 keeps it forever"`
	// RunDataDays sets only how soon data is deleted after the jobs service has decided that its run expires.
	RunDataDays float64 `env:"SERVICE_RUN_DATA_DAYS, default=400" doc:"days after the end of a run until its metrics, logs, samples and artifacts are deleted, unless a model was registered from it; 0 keeps them forever"`
	// LogBytes and the next three settings limit what one run can store, because reports come from untrusted code.
	LogBytes      int64 `env:"SERVICE_INGEST_RUN_LOG_BYTES, default=1073741824" doc:"maximum size of the log of a run; the rest of the log is not stored; 0 means no maximum"`
	PointBytes    int64 `env:"SERVICE_INGEST_RUN_POINT_BYTES, default=4294967296" doc:"maximum size of the metric points and hardware samples of a run; 0 means no maximum"`
	ReportBytes   int64 `env:"SERVICE_INGEST_RUN_REPORT_BYTES, default=1073741824" doc:"maximum size of the other reports of a run, such as validation samples and rollouts; 0 means no maximum"`
	ArtifactBytes int64 `env:"SERVICE_INGEST_RUN_ARTIFACT_BYTES, default=1099511627776" doc:"maximum size of all artifacts that a run uploads; 0 means no maximum"`
}

func (c *Config) limits() map[groupcommit.Kind]int64 {
	return map[groupcommit.Kind]int64{
		groupcommit.Log: c.LogBytes, groupcommit.Points: c.PointBytes, groupcommit.Reports: c.ReportBytes, groupcommit.Artifacts: c.ArtifactBytes,
	}
}

// Validate returns an error if the Redis URL is not valid, or if an age or a limit is negative.
func (c *Config) Validate() error {
	ages := errors.Join(retention.CheckDays("SERVICE_INGEST_DIGEST_DAYS", c.DigestDays), retention.CheckDays("SERVICE_RUN_DATA_DAYS", c.RunDataDays),
		retention.CheckDays("SERVICE_OBJECT_DAYS", c.ObjectDays))
	err := errors.Join(ages, notNegative("SERVICE_INGEST_RUN_LOG_BYTES", c.LogBytes), notNegative("SERVICE_INGEST_RUN_POINT_BYTES", c.PointBytes),
		notNegative("SERVICE_INGEST_RUN_REPORT_BYTES", c.ReportBytes), notNegative("SERVICE_INGEST_RUN_ARTIFACT_BYTES", c.ArtifactBytes))
	if err != nil || c.RedisURL.IsZero() {
		return err
	}
	return follow.CheckRedis(c.RedisURL)
}

func notNegative(setting string, n int64) error {
	if n < 0 {
		return conf.Errorf(setting, "must not be negative, got %d", n)
	}
	return nil
}
