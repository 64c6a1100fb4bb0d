package reverseproxy

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithStopEndsWithStop(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	one, over := WithStop(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), stop)
	require.NoError(t, one.Context().Err())
	over()
	require.Error(t, one.Context().Err(), "the returned function ends the context")
	other, over := WithStop(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), stop)
	defer over()
	close(stop)
	<-other.Context().Done()
}
