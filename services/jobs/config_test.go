package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/services/jobs"
)

func TestJobsConfigDefaults(t *testing.T) {
	t.Parallel()
	var cfg jobs.Config
	_, err := conf.Load(t.Context(), conf.Map(nil), &cfg)
	require.NoError(t, err)
	require.Equal(t, jobs.Config{
		DefaultGPULimit: 8, DefaultTeamGPULimit: 64, NodeLease: 30 * time.Second, FenceTimeout: 2 * time.Minute, JoinTimeout: 24 * time.Hour, SlurmWorks: 200,
		SchedulerInterval: 2 * time.Second, Ages: jobs.Ages{Job: 400, Work: 30, Engine: 1, Token: 30, Share: 30, Change: 1, RunData: 400},
	}, cfg)
}

func TestJobsConfigValidation(t *testing.T) {
	t.Parallel()
	var cfg jobs.Config
	loaded, err := conf.Load(t.Context(), conf.Map(map[string]string{
		"SERVICE_JOBS_IMAGE_REGISTRIES": "ghcr.io,registry.example:5000", "SERVICE_JOBS_DEFAULT_GPU_LIMIT": "2", "SERVICE_JOBS_DEFAULT_TEAM_GPU_LIMIT": "5",
		"SERVICE_JOBS_NODE_SLOTS": "3", "SERVICE_JOBS_NODE_LEASE": "5s", "SERVICE_JOBS_FENCE_TIMEOUT": "7s",
		"SERVICE_JOBS_SCHEDULER_INTERVAL": "1s", "SERVICE_JOBS_INGEST_ENDPOINT": "http://x/api/ingest",
	}), &cfg)
	require.NoError(t, err)
	require.Empty(t, loaded.Warnings)
	require.Equal(t, []string{"ghcr.io", "registry.example:5000"}, cfg.ImageRegistries)
	require.Equal(t, 3, cfg.NodeSlots)
	require.Equal(t, []int{2, 5}, []int{cfg.DefaultGPULimit, cfg.DefaultTeamGPULimit})
	for name, value := range map[string]string{
		"SERVICE_JOBS_IMAGE_REGISTRIES": "GHCR.io", "SERVICE_JOBS_DEFAULT_GPU_LIMIT": "-1", "SERVICE_JOBS_NODE_SLOTS": "-1",
		"SERVICE_JOBS_DEFAULT_TEAM_GPU_LIMIT": "-1", "SERVICE_JOBS_NODE_LEASE": "1ms", "SERVICE_JOBS_JOIN_TIMEOUT": "1s", "SERVICE_JOBS_FENCE_TIMEOUT": "1s", "SERVICE_JOBS_SCHEDULER_INTERVAL": "0s",
		"SERVICE_JOBS_SILENCE_STOP_POOLS": "cpu", "SERVICE_JOBS_SLURM_WORKS": "0",
	} {
		var bad jobs.Config
		_, err := conf.Load(t.Context(), conf.Map(map[string]string{name: value}), &bad)
		require.ErrorContains(t, err, name)
	}
}
