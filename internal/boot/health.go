package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/conf"
)

// commandHealth is the command-line argument with which the program reports whether the running process with the same
// settings is ready. It is for containers, whose images contain no other program that could call /readyz.
const commandHealth = "healthcheck"

const (
	// healthTimeout limits a health check. The process itself limits its checks to two seconds.
	healthTimeout = 5 * time.Second
	// maxReadiness is how many bytes of a response the health check reads.
	maxReadiness = 64 << 10
)

// checkHealth calls /readyz of the process that listens on SERVICE_ADMIN_LISTEN on this host, and writes the response to
// out. It returns an error if the process is not ready.
func checkHealth(ctx context.Context, from conf.Lookuper, out io.Writer) error {
	var settings conf.Obs
	if _, err := conf.LoadAll(ctx, from, []conf.Part{{Prefix: "SERVICE_", Config: &settings}}); err != nil {
		return err
	}
	if settings.AdminListen == "" {
		return errors.New("SERVICE_ADMIN_LISTEN must be set to the address on which the process reports its health")
	}
	addr, err := dialable(settings.AdminListen)
	if err != nil {
		return err // the settings have been validated
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("call /readyz: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // without the proxy of the environment
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("call /readyz: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReadiness))
	if err != nil {
		return fmt.Errorf("read the response of /readyz: %w", err)
	}
	fmt.Fprintln(out, strings.TrimSpace(string(body)))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the process is not ready: /readyz responded with status %d", resp.StatusCode)
	}
	return nil
}

// dialable returns the address at which a process on this host reaches a listener.
func dialable(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", err
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port), nil
}
