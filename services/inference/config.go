package inference

import (
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
)

// Config holds the settings of the inference service.
type Config struct {
	Connect         time.Duration `env:"SERVICE_INFERENCE_CONNECT_TIMEOUT, default=2s" doc:"how long connecting to an engine may take"`
	FirstByte       time.Duration `env:"SERVICE_INFERENCE_FIRST_BYTE_TIMEOUT, default=10m" doc:"how long an engine may take to begin its response, unless the revision has its own limit; 1s to 1h"`
	EngineIdle      time.Duration `env:"SERVICE_INFERENCE_ENGINE_IDLE_TIMEOUT, default=10m" doc:"how long an engine may pause within its response, unless the revision has its own limit; 1s to 1h"`
	Idle            time.Duration `env:"SERVICE_INFERENCE_IDLE_TIMEOUT, default=2m" doc:"how long a caller may pause while it sends the request or reads the response, and an engine while it takes the request; a body of up to 1 MiB must arrive within this time"`
	EngineSilence   time.Duration `env:"SERVICE_INFERENCE_ENGINE_SILENCE, default=30s" doc:"how long an engine may send no byte to any of its open calls before it is probed; a probe waits for as long; docs/reference/operating.md describes when it is replaced"`
	Fast            string        `env:"SERVICE_INFERENCE_FAST, default=on" doc:"on or off; off relays every call through the HTTP server of Go's standard library, which is slower, to find out whether the fast path is the cause of a problem"`
	MaxBodyMB       int64         `env:"SERVICE_INFERENCE_MAX_BODY_MB, default=32" doc:"largest request body in MiB"`
	SocketIdle      time.Duration `env:"SERVICE_INFERENCE_WEBSOCKET_IDLE_TIMEOUT, default=5m" doc:"how long a WebSocket stays open while neither side sends anything"`
	SocketMessageMB int64         `env:"SERVICE_INFERENCE_WEBSOCKET_MAX_MESSAGE_MB, default=16" doc:"largest message of a WebSocket in MiB"`
	// TrafficDays, RollupDays and TranscriptDays are ages at which rows are deleted.
	TrafficDays    float64 `env:"SERVICE_INFERENCE_TRAFFIC_DAYS, default=90" doc:"days until the record of a call is deleted; 0 keeps it forever"`
	RollupDays     float64 `env:"SERVICE_INFERENCE_ROLLUP_DAYS, default=90" doc:"days until the counts and percentiles of the calls of a minute or an hour are deleted; 0 keeps them forever"`
	TranscriptDays float64 `env:"SERVICE_INFERENCE_TRANSCRIPT_DAYS, default=31" doc:"days until the transcript of a playground call is deleted; should exceed SERVICE_REGISTRY_PLAYGROUND_DAYS; 0 keeps it forever"`
	Spool          string  `env:"SERVICE_INFERENCE_SPOOL" doc:"folder that only this process uses; it holds the records of calls while the database is unavailable, and the list of replica ids"`
}

// Validate returns an error for the first setting that is out of range.
func (c *Config) Validate() error {
	if c.Connect <= 0 || c.Idle <= 0 || c.SocketIdle <= 0 {
		return errors.New("SERVICE_INFERENCE_CONNECT_TIMEOUT, SERVICE_INFERENCE_IDLE_TIMEOUT and " +
			"SERVICE_INFERENCE_WEBSOCKET_IDLE_TIMEOUT must be positive")
	}
	if min(c.FirstByte, c.EngineIdle) < time.Second || max(c.FirstByte, c.EngineIdle) > engineclient.MaxWait {
		return errors.New("SERVICE_INFERENCE_FIRST_BYTE_TIMEOUT and SERVICE_INFERENCE_ENGINE_IDLE_TIMEOUT must be from 1s to 1h")
	}
	if c.EngineSilence < time.Second || c.EngineSilence > time.Hour {
		return errors.New("SERVICE_INFERENCE_ENGINE_SILENCE must be from 1s to 1h")
	}
	if c.Fast != "on" && c.Fast != "off" {
		return fmt.Errorf("SERVICE_INFERENCE_FAST must be on or off, got %q", c.Fast)
	}
	if c.MaxBodyMB < 1 || c.MaxBodyMB > 1024 {
		return errors.New("SERVICE_INFERENCE_MAX_BODY_MB must be from 1 to 1024")
	}
	if c.SocketMessageMB < 1 || c.SocketMessageMB > 1024 {
		return errors.New("SERVICE_INFERENCE_WEBSOCKET_MAX_MESSAGE_MB must be from 1 to 1024")
	}
	return errors.Join(retention.CheckDays("SERVICE_INFERENCE_TRAFFIC_DAYS", c.TrafficDays),
		retention.CheckDays("SERVICE_INFERENCE_ROLLUP_DAYS", c.RollupDays),
		retention.CheckDays("SERVICE_INFERENCE_TRANSCRIPT_DAYS", c.TranscriptDays))
}
