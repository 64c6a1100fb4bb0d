package gateway

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/gateway/internal/middleware"
	"github.com/signalbox-dev/signalbox/platform/conf"
)

// Config contains the gateway's own settings.
type Config struct {
	Listen conf.Listen `env:", prefix=SERVICE_"`
	Public conf.Public `env:", prefix=SERVICE_"`
	// TrustedProxies lists the proxies in front of the gateway whose X-Forwarded-For header is trusted.
	TrustedProxies []string `env:"SERVICE_GATEWAY_TRUSTED_PROXIES" doc:"addresses or CIDRs of the proxies in front of the gateway whose X-Forwarded-For header is trusted"`
	// AllowedHosts lists the host names that clients may use in addition to the host of the public URL.
	AllowedHosts   []string      `env:"SERVICE_GATEWAY_ALLOWED_HOSTS" doc:"host names that clients use in addition to the host of SERVICE_PUBLIC_URL; addresses, localhost and names without a dot are always allowed"`
	RequestTimeout time.Duration `env:"SERVICE_GATEWAY_REQUEST_TIMEOUT, default=30s" doc:"how long a request may take, including its body, unless its route has its own limit; event streams, /api/ingest, /inference and /api/blobs have no limit"`
	IngestAddr     string        `env:"SERVICE_GATEWAY_INGEST_ADDR" doc:"host:port of ingest's HTTP listener, if ingest runs in its own process"`
	InferenceAddr  string        `env:"SERVICE_GATEWAY_INFERENCE_ADDR" doc:"host:port of inference's HTTP listener, if inference runs in its own process"`
}

// Validate returns an error that lists every invalid setting.
func (c *Config) Validate() error {
	var errs []error
	if _, err := middleware.ParseProxies(c.TrustedProxies); err != nil {
		errs = append(errs, conf.Errorf("SERVICE_GATEWAY_TRUSTED_PROXIES", "%v", err))
	}
	if _, err := middleware.ParseHosts(c.Public.URL, c.AllowedHosts); err != nil {
		errs = append(errs, conf.Errorf("SERVICE_GATEWAY_ALLOWED_HOSTS", "%v", err))
	}
	if c.RequestTimeout <= 0 {
		errs = append(errs, conf.Errorf("SERVICE_GATEWAY_REQUEST_TIMEOUT", "must be positive, got %v", c.RequestTimeout))
	}
	for _, addr := range [][2]string{
		{"SERVICE_GATEWAY_INGEST_ADDR", c.IngestAddr}, {"SERVICE_GATEWAY_INFERENCE_ADDR", c.InferenceAddr},
	} {
		if addr[1] == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(addr[1]); err != nil {
			errs = append(errs, conf.Errorf(addr[0], "must be host:port, got %q", addr[1]))
		}
	}
	return errors.Join(errs...)
}

const refreshCookie = "service_refresh"

// secure reports whether the public URL is https.
func (c *Config) secure() bool {
	u, err := url.Parse(c.Public.URL)
	return err == nil && u.Scheme == "https"
}

// origin returns the public URL in the form of the Origin header: in lower case and without the default port. It
// returns "" if the URL has no host.
func (c *Config) origin() string {
	u, err := url.Parse(c.Public.URL)
	if err != nil || u.Host == "" {
		return ""
	}
	host := strings.ToLower(u.Host)
	if port := u.Port(); u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return u.Scheme + "://" + host
}

// cookie returns the name of the refresh cookie. The name depends on the scheme of the public URL.
func (c *Config) cookie() string {
	if c.secure() {
		return "__Host-" + refreshCookie
	}
	return refreshCookie
}
