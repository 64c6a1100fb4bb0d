package gateway_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway"
	"github.com/signalbox-dev/signalbox/platform/conf"
)

func load(t *testing.T, settings map[string]string) (gateway.Config, error) {
	t.Helper()
	var cfg gateway.Config
	_, err := conf.Load(t.Context(), conf.Map(settings), &cfg)
	return cfg, err
}

func TestGatewayConfigLoads(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, map[string]string{
		"SERVICE_LISTEN": "127.0.0.1:8080", "SERVICE_PUBLIC_URL": "https://box.example", "SERVICE_GATEWAY_TRUSTED_PROXIES": "10.0.0.0/8,192.0.2.1",
		"SERVICE_GATEWAY_REQUEST_TIMEOUT": "5s", "SERVICE_GATEWAY_INGEST_ADDR": "ingest:9001",
		"SERVICE_GATEWAY_ALLOWED_HOSTS": "box.internal.example,infer.example",
	})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:8080", cfg.Listen.Addr)
	require.Equal(t, "https://box.example", cfg.Public.URL)
	require.Equal(t, []string{"10.0.0.0/8", "192.0.2.1"}, cfg.TrustedProxies)
	require.Equal(t, []string{"box.internal.example", "infer.example"}, cfg.AllowedHosts)
	require.Equal(t, 5*time.Second, cfg.RequestTimeout)
	require.Equal(t, "ingest:9001", cfg.IngestAddr)

	plain, err := load(t, nil)
	require.NoError(t, err)
	require.Equal(t, 30*time.Second, plain.RequestTimeout)
	require.Empty(t, plain.TrustedProxies)
}

func TestGatewayConfigNamesEveryInvalidSetting(t *testing.T) {
	t.Parallel()
	_, err := load(t, map[string]string{
		"SERVICE_GATEWAY_TRUSTED_PROXIES": "everyone", "SERVICE_GATEWAY_REQUEST_TIMEOUT": "-1s",
		"SERVICE_GATEWAY_INGEST_ADDR": "ingest", "SERVICE_GATEWAY_INFERENCE_ADDR": "inference",
		"SERVICE_GATEWAY_ALLOWED_HOSTS": "https://box.example",
	})
	for _, name := range []string{
		"SERVICE_GATEWAY_TRUSTED_PROXIES", "SERVICE_GATEWAY_REQUEST_TIMEOUT",
		"SERVICE_GATEWAY_INGEST_ADDR", "SERVICE_GATEWAY_INFERENCE_ADDR", "SERVICE_GATEWAY_ALLOWED_HOSTS",
	} {
		require.ErrorContains(t, err, name)
	}

	_, err = load(t, map[string]string{"SERVICE_LISTEN": "8080", "SERVICE_PUBLIC_URL": "box"})
	require.ErrorContains(t, err, "SERVICE_LISTEN")
	require.ErrorContains(t, err, "SERVICE_PUBLIC_URL")
}
