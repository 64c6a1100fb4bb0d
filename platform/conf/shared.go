package conf

import (
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Several services use these structs. The names in their tags have no prefix. A Config that contains such a struct
// sets the prefix: `env:", prefix=SERVICE_JOBS_"`.

// Listen is an address to serve on.
type Listen struct {
	Addr string `env:"LISTEN" doc:"address to listen on, as host:port; port 0 selects a free port"`
}

// Validate is called by Load.
func (c Listen) Validate() error { return checkAddr("LISTEN", c.Addr) }

// Postgres is a service's access to its own schema.
type Postgres struct {
	URL              secret.String `env:"DATABASE_URL" doc:"Postgres URL of the role that reads and writes rows"`
	OwnerURL         secret.String `env:"DATABASE_OWNER_URL" doc:"Postgres URL of the role that owns the schema; only the migrate command uses it"`
	MaxConns         int32         `env:"DATABASE_MAX_CONNS, default=8" doc:"maximum number of connections in the pool"`
	StatementTimeout time.Duration `env:"DATABASE_STATEMENT_TIMEOUT, default=30s" doc:"maximum duration of a statement, after which it is cancelled"`
}

// Validate is called by Load.
func (c Postgres) Validate() error {
	var errs []error
	if c.MaxConns < 2 {
		errs = append(errs, Errorf("DATABASE_MAX_CONNS", "must be at least 2, got %d", c.MaxConns))
	}
	if c.StatementTimeout <= 0 {
		errs = append(errs, Errorf("DATABASE_STATEMENT_TIMEOUT", "must be positive, got %v", c.StatementTimeout))
	}
	return errors.Join(errs...)
}

// TLS is a service's identity towards other services. Either all three files are set or none is.
type TLS struct {
	CA   string `env:"TLS_CA" doc:"file with the certificate of the internal CA"`
	Cert string `env:"TLS_CERT" doc:"file with this process's certificate"`
	Key  string `env:"TLS_KEY" doc:"file with this process's private key"`
}

// Enabled reports whether the files are set.
func (c TLS) Enabled() bool { return c.CA != "" }

// Validate is called by Load.
func (c TLS) Validate() error {
	var errs []error
	for _, file := range [][2]string{{"TLS_CA", c.CA}, {"TLS_CERT", c.Cert}, {"TLS_KEY", c.Key}} {
		if file[1] == "" && c != (TLS{}) {
			errs = append(errs, Errorf(file[0], "must be set because another TLS_ file is set"))
		}
	}
	return errors.Join(errs...)
}

// Obs configures logs, traces and the admin listener.
type Obs struct {
	LogLevel     string `env:"LOG_LEVEL, default=info" doc:"minimum log level: debug, info, warn or error"`
	LogFormat    string `env:"LOG_FORMAT, default=json" doc:"log format: json, or text for terminals"`
	OTLPEndpoint string `env:"OTLP_ENDPOINT" doc:"URL of an OTLP gRPC collector for traces; if empty, no traces are sent"`
	AdminListen  string `env:"ADMIN_LISTEN" doc:"address of /healthz, /readyz, /metrics, /statusz and /debug/pprof; if empty, they are off"`
}

// Validate is called by Load.
func (c Obs) Validate() error {
	var errs []error
	var level slog.Level
	if level.UnmarshalText([]byte(c.LogLevel)) != nil {
		errs = append(errs, Errorf("LOG_LEVEL", "must be debug, info, warn or error, got %q", c.LogLevel))
	}
	if c.LogFormat != "json" && c.LogFormat != "text" {
		errs = append(errs, Errorf("LOG_FORMAT", "must be json or text, got %q", c.LogFormat))
	}
	if c.OTLPEndpoint != "" {
		errs = append(errs, checkURL("OTLP_ENDPOINT", c.OTLPEndpoint))
	}
	return errors.Join(append(errs, checkAddr("ADMIN_LISTEN", c.AdminListen))...)
}

// Stop configures how a process starts and stops.
type Stop struct {
	DrainDelay   time.Duration `env:"DRAIN_DELAY, default=0s" doc:"how long /readyz returns 503 before the process stops serving"`
	StopGrace    time.Duration `env:"STOP_GRACE, default=8s" doc:"how long open requests may take after SIGTERM; then they are cut off, and the process exits within six seconds"`
	StopTimeout  time.Duration `env:"STOP_TIMEOUT, default=10s" doc:"how long each part that serves no requests may take to finish its work in progress"`
	ReadyTimeout time.Duration `env:"READY_TIMEOUT, default=1m" doc:"how long each part of the process may take to become ready"`
}

// afterGrace is how long a stop may take after the grace period: a second until the requests that were cut off have ended,
// then at most two seconds each for the records of calls, and for the lease and the journal of revocations.
const afterGrace = 6 * time.Second

// Limit is how long a whole stop may take after SIGTERM and SERVICE_DRAIN_DELAY.
func (c Stop) Limit() time.Duration { return c.StopGrace + afterGrace }

// Validate is called by Load.
func (c Stop) Validate() error {
	var errs []error
	if c.DrainDelay < 0 {
		errs = append(errs, Errorf("DRAIN_DELAY", "must not be negative, got %v", c.DrainDelay))
	}
	if c.StopGrace < 0 {
		errs = append(errs, Errorf("STOP_GRACE", "must not be negative, got %v", c.StopGrace))
	}
	if c.StopTimeout <= 0 {
		errs = append(errs, Errorf("STOP_TIMEOUT", "must be positive, got %v", c.StopTimeout))
	}
	if c.ReadyTimeout <= 0 {
		errs = append(errs, Errorf("READY_TIMEOUT", "must be positive, got %v", c.ReadyTimeout))
	}
	return errors.Join(errs...)
}

// Drivers of the object store.
const (
	BlobFS = "fs"
	BlobS3 = "s3"
)

// Blob configures the object store.
type Blob struct {
	Driver string `env:"BLOB_DRIVER, default=fs" doc:"fs for a folder, s3 for an S3 server"`
	Root   string `env:"BLOB_ROOT" doc:"folder of the fs driver; all processes of the installation must share it"`
	S3     S3     `env:", prefix=BLOB_S3_"`
	// All processes that create or verify signed URLs of the fs driver must have the same key.
	SigningKey secret.String `env:"BLOB_SIGNING_KEY" doc:"key of the fs driver's signed URLs, at least 32 characters"`
	MaxMB      int64         `env:"MAX_UPLOAD_MB, default=4096" doc:"largest file, package or archive of an upload in MiB"`
}

// S3 configures an S3 server and a bucket on it.
type S3 struct {
	Endpoint  string        `env:"ENDPOINT" doc:"host:port of the S3 server"`
	Bucket    string        `env:"BUCKET" doc:"name of an existing bucket"`
	Region    string        `env:"REGION, default=us-east-1" doc:"region of the bucket"`
	AccessKey string        `env:"ACCESS_KEY" doc:"access key id"`
	SecretKey secret.String `env:"SECRET_KEY" doc:"secret access key"`
	Plaintext bool          `env:"PLAINTEXT, default=false" doc:"use HTTP instead of HTTPS"`
	PathStyle bool          `env:"PATH_STYLE, default=false" doc:"put the bucket into the path instead of the host name"`
}

// Validate is called by Load.
func (c Blob) Validate() error {
	var errs []error
	switch c.Driver {
	case BlobFS:
		if n := len(c.SigningKey.Reveal()); n > 0 && n < 32 {
			errs = append(errs, Errorf("BLOB_SIGNING_KEY", "must have at least 32 characters, got %d", n))
		} else if n > 0 && !secret.LooksRandom([]byte(c.SigningKey.Reveal())) {
			errs = append(errs, Errorf("BLOB_SIGNING_KEY", "is not random; generate a random key"))
		}
	case BlobS3:
		for _, set := range [][2]string{
			{"ENDPOINT", c.S3.Endpoint},
			{"BUCKET", c.S3.Bucket},
			{"ACCESS_KEY", c.S3.AccessKey},
			{"SECRET_KEY", c.S3.SecretKey.Reveal()},
		} {
			if set[1] == "" {
				errs = append(errs, Errorf("BLOB_S3_"+set[0], "must be set for the driver s3"))
			}
		}
	default:
		errs = append(errs, Errorf("BLOB_DRIVER", "must be fs or s3, got %q", c.Driver))
	}
	if c.MaxMB < 1 || c.MaxMB > 1<<30 {
		errs = append(errs, Errorf("MAX_UPLOAD_MB", "must be from 1 to %d, got %d", 1<<30, c.MaxMB))
	}
	return errors.Join(errs...)
}

// Public is the address at which clients reach the installation.
type Public struct {
	URL string `env:"PUBLIC_URL" doc:"base URL that clients use; if empty, the address to which the process is bound"`
}

// Validate is called by Load.
func (c Public) Validate() error {
	if c.URL == "" {
		return nil
	}
	return checkURL("PUBLIC_URL", c.URL)
}

func checkAddr(name, addr string) error {
	if addr == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return Errorf(name, "must be host:port, got %q", addr)
	}
	return nil
}

func checkURL(name, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return Errorf(name, "must be a URL like https://host:port, got %q", withoutPassword(text))
	}
	// Other code compares the scheme as text to decide whether the connection is secure.
	if !strings.HasPrefix(text, u.Scheme+"://") {
		return Errorf(name, "must have its scheme in lower case")
	}
	if strings.HasSuffix(u.Path, "/") {
		return Errorf(name, "must not end in a slash")
	}
	return nil
}
