package auth_test

import (
	"crypto/rand"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/services/auth"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		env  map[string]string
		want string
	}{
		"defaults":                            {nil, ""},
		"zero hours":                          {map[string]string{"SERVICE_JWT_HOURS": "0"}, "SERVICE_JWT_HOURS"},
		"access token outlives refresh token": {map[string]string{"SERVICE_JWT_HOURS": "721"}, "SERVICE_JWT_HOURS"},
		"zero key days":                       {map[string]string{"SERVICE_AUTH_KEY_DAYS": "0"}, "SERVICE_AUTH_KEY_DAYS"},
		"key days too large":                  {map[string]string{"SERVICE_AUTH_KEY_DAYS": "730"}, "SERVICE_AUTH_KEY_DAYS"},
		"half of the processors":              {map[string]string{"SERVICE_AUTH_HASH_PARALLEL": "0"}, ""},
		"negative parallel hashes":            {map[string]string{"SERVICE_AUTH_HASH_PARALLEL": "-1"}, "SERVICE_AUTH_HASH_"},
		"too little memory":                   {map[string]string{"SERVICE_AUTH_HASH_MEMORY_KIB": "63"}, "SERVICE_AUTH_HASH_"},
		"zero iterations":                     {map[string]string{"SERVICE_AUTH_HASH_ITERATIONS": "0"}, "SERVICE_AUTH_HASH_"},
		"valid password":                      {map[string]string{"SERVICE_BOOTSTRAP_ADMIN_PASSWORD": "a1b2c3d4"}, ""},
		"short password":                      {map[string]string{"SERVICE_BOOTSTRAP_ADMIN_PASSWORD": "1234567"}, "at least 8 bytes"},
		"longest password":                    {map[string]string{"SERVICE_BOOTSTRAP_ADMIN_PASSWORD": strings.Repeat("x", 1024)}, ""},
		"password too long for login":         {map[string]string{"SERVICE_BOOTSTRAP_ADMIN_PASSWORD": strings.Repeat("x", 1025)}, "at most 1024 bytes"},
		"maximum hours":                       {map[string]string{"SERVICE_JWT_HOURS": "720"}, ""},
	} {
		cfg := &auth.Config{}
		_, err := conf.Load(t.Context(), conf.Map(tc.env), cfg)
		if tc.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, tc.want, name)
		require.NotContains(t, err.Error(), "1234567")
	}
}

func TestNew_missingKeyring(t *testing.T) {
	t.Parallel()
	clk := clock.Real()
	_, err := auth.New(t.Context(), auth.Config{HashParallel: 1, HashMemoryKiB: 64, HashIterations: 1}, auth.Deps{
		Pool: newDB(t).Pool(auth.Name), Clock: clk, IDs: id.NewSource(clk, rand.Reader), Rand: rand.Reader, Log: slog.New(slog.DiscardHandler),
	})
	require.ErrorContains(t, err, "SERVICE_KEYRING")
}

func TestBootstrap_fiveConcurrentStarts(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	services := make([]*auth.Service, 5)
	firsts := make([]*auth.FirstLogin, len(services))
	var wg sync.WaitGroup
	for n := range services {
		wg.Go(func() {
			svc := service(t, db, clk)
			first, err := svc.Bootstrap(t.Context())
			if err == nil {
				services[n], firsts[n] = svc, first
			}
		})
	}
	wg.Wait()
	made := 0
	var kid string
	for n, svc := range services {
		require.NotNil(t, svc)
		keys, err := svc.Keys(t.Context())
		require.NoError(t, err)
		require.Len(t, keys, 1)
		if kid == "" {
			kid = keys[0].ID
		}
		require.Equal(t, kid, keys[0].ID)
		if firsts[n] != nil {
			made++
		}
	}
	require.Equal(t, 1, made)
}

func TestWorkers_sweepLoginAttempts(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	pool := db.Pool(auth.Name)
	_, err := pool.Exec(t.Context(), `INSERT INTO login_attempt (address, at) VALUES ('192.0.2.7', now() - interval '1 hour')`)
	require.NoError(t, err)
	svc := service(t, db, clock.Real())
	workers := svc.Workers()
	stop := make(chan struct{})
	ctx, cancel := contextUntil(t, stop)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- process.Group(ctx, workers...) }()
	require.Eventually(t, func() bool {
		var n int
		return pool.QueryRow(t.Context(), `SELECT count(*) FROM login_attempt`).Scan(&n) == nil && n == 0
	}, 10*time.Second, 10*time.Millisecond)
	close(stop)
	require.NoError(t, <-done)
}
