package epoch

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAhead_endsBeforeCallersDeadline(t *testing.T) {
	t.Parallel()
	deadline := time.Now().Add(time.Hour)
	caller, stop := context.WithDeadline(t.Context(), deadline)
	defer stop()
	waiting, cancel := ahead(caller)
	defer cancel()
	at, ok := waiting.Deadline()
	require.True(t, ok)
	require.Equal(t, answerAhead, deadline.Sub(at), "there is time to return an explanation")
	require.Positive(t, answerAhead)

	patient, end := ahead(t.Context())
	defer end()
	_, ok = patient.Deadline()
	require.False(t, ok, "without a deadline the wait lasts until the leases expire")
	stop()
	<-waiting.Done()
}
