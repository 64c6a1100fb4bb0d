package host

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
)

func TestEnvironmentVariableAllowed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"WANDB_MODE", "a", "HF_HOME", "TOKENIZERS_PARALLELISM", "MY_PATH"} {
		require.NoError(t, allowed(name, "x"), name)
	}
	for _, name := range []string{
		"", "1A", "A-B", "A=B", "A B", "LD_PRELOAD", "ld_preload", "DYLD_X", "PYTHONSTARTUP", "PATH", "path", "HOME", "TMPDIR",
		"BASH_ENV", "ENV", "IFS", "SERVICE_JOB_TOKEN", "SERVICE_ANYTHING", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES",
		"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "VIRTUAL_ENV",
	} {
		require.Error(t, allowed(name, "x"), name)
	}
	require.NoError(t, allowed("A", "-----BEGIN KEY-----\r\nx\n"))
	require.Error(t, allowed("A", "a\x00b"))
}

func TestEnded_keepsFirstReason(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	err := ended(executor.ReasonStart, ended(executor.ReasonFetch, cause))
	var own *endError
	require.ErrorAs(t, err, &own)
	require.Equal(t, executor.ReasonFetch, own.reason)
	require.ErrorIs(t, err, cause)
	require.NoError(t, ended(executor.ReasonFetch, nil))
}

func TestWork_refusal(t *testing.T) {
	t.Parallel()
	fresh := func() *work {
		return bareWork(&Host{shutdown: make(chan struct{})}, executor.Key{WorkID: "w"}, t.TempDir())
	}
	w := fresh()
	require.Nil(t, w.refusal(t.Context(), errors.New("the disk is full")), "an error of the node itself is not a refusal")
	require.Equal(t, executor.ReasonEnvBuild, w.refusal(t.Context(), &pyenv.BuildError{Output: "no wheel"}).Reason)
	require.Equal(t, "no wheel", w.refusal(t.Context(), &pyenv.BuildError{Output: "no wheel"}).Message)
	require.Equal(t, executor.ReasonFetch, w.refusal(t.Context(), ended(executor.ReasonFetch, errors.New("x"))).Reason)
	close(w.stopping)
	require.Equal(t, executor.ReasonStopped, w.refusal(t.Context(), errors.New("x")).Reason)
	w = fresh()
	close(w.host.shutdown)
	require.Equal(t, executor.ReasonStopped, w.refusal(t.Context(), errors.New("x")).Reason)
}
