package host_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

func TestFetch_smallFilesTogether(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, `cat "$(dirname "$SERVICE_JOB_BINDINGS_FILE")"/datasets/train/* | wc -c`, nil)
	data := executor.DatasetInput{Name: "train", Ref: "d@v1"}
	for n := range 600 {
		data.Files = append(data.Files, a.plane.Put(fmt.Sprintf("part-%05d", n), fmt.Appendf(nil, "text %5d", n)))
	}
	large := a.plane.Put("part-large", []byte(strings.Repeat("l", 1<<20)))
	data.Files = append(data.Files, large)
	a.plane.FailDownloads(data.Files[300], 1)
	a.work.Attempt.Datasets = []executor.DatasetInput{data}
	a.apply()
	require.Equal(t, executor.Exit{}, *a.reach(executor.PhaseExited).Exit)
	require.Equal(t, 3, a.plane.Together(), "each request must have up to 250 objects")
	require.Equal(t, 2, a.plane.Fetched(data.Files[300]), "the object whose download broke must be fetched again")
	require.Equal(t, 1, a.plane.Fetched(data.Files[0]))
	text, _ := a.plane.Logs(a.work.Key)
	require.Equal(t, fmt.Sprint(600*10+1<<20), strings.TrimSpace(text))
}

func TestFetch_wrongFileAmongSmallOnes(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "true", nil)
	data := executor.DatasetInput{Name: "train", Ref: "d@v1"}
	for n := range 3 {
		data.Files = append(data.Files, a.plane.Put(fmt.Sprint("part-", n), fmt.Append(nil, n)))
	}
	data.Files[1].SHA256 = strings.Repeat("0", 64)
	a.work.Attempt.Datasets = []executor.DatasetInput{data}
	a.apply()
	exit := a.reach(executor.PhaseExited).Exit
	require.Equal(t, executor.ReasonFetch, exit.Reason)
	require.Contains(t, exit.Message, "fetch blob://part-1")
}
