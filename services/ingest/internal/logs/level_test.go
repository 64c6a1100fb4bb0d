package logs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLevels_of(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]Level{
		"2026-11-25 03:00:00 INFO     trainer: step 3": Info,
		"[WARN] low disk":                                 Warning,
		"WARNING:root:lr is 0":                            Warning,
		"ERROR:root:out of memory":                        Error,
		"\x1b[31mERROR\x1b[0m out of memory":              Error,
		"\x1b[1;31mTraceback (most recent call last):":    Error,
		"E1125 no level":                                  NoLevel,
		`{"time": "x", "level": "error", "msg": "INFO"}`:  Error,
		`{"level":"DEBUG","msg":"x"}`:                     Debug,
		`time=x level=warn msg="y"`:                       Warning,
		"rank 3 CRITICAL stop":                            Error,
		"Traceback (most recent call last):":              Error,
		"torch.cuda.OutOfMemoryError: CUDA out of memory": Error,
		"KeyboardInterrupt":                               Error,
		"  File \"a.py\", line 3, in f":                   NoLevel,
		"the error is 0.3, information at level 4":        NoLevel,
		"INFORMATION":                                     NoLevel,
		"":                                                NoLevel,
		strings.Repeat("x", levelBytes) + " ERROR":        NoLevel,
		"INFO the last ERROR was fixed":                   Info,
	} {
		require.Equal(t, want, newLevels().of([]byte(line)), "%q", line)
	}
	require.Equal(t, []Level{NoLevel, Debug, Info, Warning, Error},
		[]Level{ParseLevel("x"), ParseLevel("debug"), ParseLevel("info"), ParseLevel("warning"), ParseLevel("error")})
}
