package slurm_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/signalbox-dev/signalbox/agent/slurm"
)

// commandFunc are commands that a function runs.
type commandFunc func(ctx context.Context, name string) error

func (f commandFunc) Run(ctx context.Context, name string, _ ...string) ([]byte, error) {
	return nil, f(ctx, name)
}

func TestCount_byResult(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	results := map[string]error{
		"squeue": nil, "sbatch": &slurm.CommandError{Name: "sbatch"}, "sinfo": slurm.ErrTimeout, "scancel": errors.New("not in PATH"),
	}
	c, err := slurm.Count(commandFunc(func(_ context.Context, name string) error { return results[name] }), sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	require.NoError(t, err)
	for name, want := range results {
		_, err := c.Run(t.Context(), name)
		require.Equal(t, want, err)
	}
	var seen metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &seen))
	got := map[string]string{}
	require.Equal(t, "agent_slurm_commands_total", seen.ScopeMetrics[0].Metrics[0].Name)
	for _, p := range seen.ScopeMetrics[0].Metrics[0].Data.(metricdata.Sum[int64]).DataPoints {
		name, _ := p.Attributes.Value("command")
		result, _ := p.Attributes.Value("result")
		got[name.AsString()] = result.AsString()
	}
	require.Equal(t, map[string]string{"squeue": "ok", "sbatch": "failed", "sinfo": "timeout", "scancel": "error"}, got)
}

// Many attempts at once do not overload Slurm's controller. Other commands do not wait for submissions.
func TestCount_limitsSubmissions(t *testing.T) {
	t.Parallel()
	var running atomic.Int32
	var reached sync.Once
	full, release := make(chan struct{}), make(chan struct{})
	c, err := slurm.Count(commandFunc(func(_ context.Context, name string) error {
		if name != "sbatch" {
			return nil
		}
		switch n := running.Add(1); {
		case n == 4:
			reached.Do(func() { close(full) })
		case n > 4:
			return errors.New("too many submissions at once")
		}
		<-release
		running.Add(-1)
		return nil
	}), nil)
	require.NoError(t, err)
	var all sync.WaitGroup
	failures := make(chan error, 20)
	for range cap(failures) {
		all.Go(func() {
			_, err := c.Run(t.Context(), "sbatch")
			failures <- err
		})
	}
	<-full
	_, err = c.Run(t.Context(), "squeue")
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Run(ended, "sbatch")
	require.ErrorIs(t, err, context.Canceled)
	close(release)
	all.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
}
