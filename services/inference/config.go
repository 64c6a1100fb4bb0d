package inference

import (
	"errors"
	"time"
)

// Config holds the settings of the inference service.
type Config struct {
	Connect         time.Duration `env:"SERVICE_INFERENCE_CONNECT_TIMEOUT, default=2s" doc:"how long connecting to an engine may take"`
	FirstByte       time.Duration `env:"SERVICE_INFERENCE_FIRST_BYTE_TIMEOUT, default=2m" doc:"how long an engine may take to begin its response"`
	Idle            time.Duration `env:"SERVICE_INFERENCE_IDLE_TIMEOUT, default=2m" doc:"how long a request body or a response may pause, and how long a body of up to 1 MiB may take in total"`
	MaxBodyMB       int64         `env:"SERVICE_INFERENCE_MAX_BODY_MB, default=32" doc:"largest request body in MiB"`
	SocketIdle      time.Duration `env:"SERVICE_INFERENCE_WEBSOCKET_IDLE_TIMEOUT, default=5m" doc:"how long both sides of a WebSocket may send nothing"`
	SocketMessageMB int64         `env:"SERVICE_INFERENCE_WEBSOCKET_MAX_MESSAGE_MB, default=16" doc:"largest message of a WebSocket in MiB"`
	// TrafficDays and TranscriptDays are ages at which rows are deleted.
	TrafficDays    int    `env:"SERVICE_INFERENCE_TRAFFIC_DAYS, default=90" doc:"days until the record of a call is deleted; 0 keeps it"`
	TranscriptDays int    `env:"SERVICE_INFERENCE_TRANSCRIPT_DAYS, default=31" doc:"days until a call of a playground session is deleted; longer than the sessions are kept; 0 keeps it"`
	Spool          string `env:"SERVICE_INFERENCE_SPOOL" doc:"folder used by this process alone; it holds the record of calls while the database is unavailable, and the list of replica ids"`
}

// Validate returns an error for the first setting that is out of range.
func (c *Config) Validate() error {
	if c.Connect <= 0 || c.FirstByte <= 0 || c.Idle <= 0 || c.SocketIdle <= 0 {
		return errors.New("SERVICE_INFERENCE_CONNECT_TIMEOUT, SERVICE_INFERENCE_FIRST_BYTE_TIMEOUT, SERVICE_INFERENCE_IDLE_TIMEOUT and " +
			"SERVICE_INFERENCE_WEBSOCKET_IDLE_TIMEOUT must be positive")
	}
	if c.MaxBodyMB < 1 || c.MaxBodyMB > 1024 {
		return errors.New("SERVICE_INFERENCE_MAX_BODY_MB must be from 1 to 1024")
	}
	if c.SocketMessageMB < 1 || c.SocketMessageMB > 1024 {
		return errors.New("SERVICE_INFERENCE_WEBSOCKET_MAX_MESSAGE_MB must be from 1 to 1024")
	}
	if c.TrafficDays < 0 || c.TranscriptDays < 0 {
		return errors.New("SERVICE_INFERENCE_TRAFFIC_DAYS and SERVICE_INFERENCE_TRANSCRIPT_DAYS must not be negative")
	}
	return nil
}
