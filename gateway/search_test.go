package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	searchv1 "github.com/signalbox-dev/signalbox/gen/signalbox/search/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestSearchCallsTheServiceOfEachKind(t *testing.T) {
	t.Parallel()
	r, called := startSearch(t, nil)
	got := r.do("GET", "/api/search?q=ab", "", as(userToken)...)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, strings.Fields("dataset deployment environment fleet job model node project rubric run team user"), called())
	require.True(t, strings.HasPrefix(got.body, `{"results":[{"kind":"run","id":"run_1","title":"ab","snippet":null,"project":null,"score":0.9},{"kind":"project",`), got.body)
	require.Contains(t, got.body, `"missing":[]`)
	got = r.do("GET", "/api/search?q=ab&limit=1&kinds=model&kinds=run", "", as(userToken)...)
	require.Equal(t, `{"results":[{"kind":"run","id":"run_1","title":"ab","snippet":null,"project":null,"score":0.9}],"missing":[]}`, strings.TrimSpace(got.body))
	require.Equal(t, []string{"model", "run"}, called())
	for _, query := range []string{"q=a", "q=ab&kinds=nothing", "q=ab&kinds=run&kinds=run", "q=ab&limit=51"} {
		got := r.do("GET", "/api/search?"+query, "", as(userToken)...)
		require.Equal(t, http.StatusUnprocessableEntity, got.status, "%s: %s", query, got.body)
		require.Empty(t, called(), query)
	}
	require.Equal(t, http.StatusUnauthorized, r.do("GET", "/api/search?q=ab", "").status)
}

// A service that does not respond is missing; the others are searched all the same.
func TestSearchNamesMissingKinds(t *testing.T) {
	t.Parallel()
	r, _ := startSearch(t, func(ctx context.Context, kind string) error {
		switch kind {
		case "model":
			<-ctx.Done()
			return ctx.Err()
		case "job", "run":
			return fault.New(fault.Unavailable, "down", "down")
		default:
			return nil
		}
	})
	got := r.do("GET", "/api/search?q=ab&kinds=model&kinds=dataset&kinds=run&kinds=job", "", as(userToken)...)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Contains(t, got.body, `"missing":["job","run","model"]`)
	require.Contains(t, got.body, `"id":"dataset_1"`)
	got = r.do("GET", "/api/search?q=ab&kinds=run", "", as(userToken)...)
	require.Equal(t, http.StatusServiceUnavailable, got.status, "nothing was searched: %s", got.body)
}

// A refusal is not a missing kind.
func TestSearchReturnsRefusals(t *testing.T) {
	t.Parallel()
	r, _ := startSearch(t, func(_ context.Context, kind string) error {
		if kind == "user" {
			return fault.New(fault.Forbidden, "no", "no")
		}
		return nil
	})
	require.Equal(t, http.StatusForbidden, r.do("GET", "/api/search?q=ab", "", as(userToken)...).status)
}

func TestGRPCSearch(t *testing.T) {
	t.Parallel()
	r, called := startSearch(t, nil)
	client := searchv1.NewSearchServiceClient(r.client())
	signed := withHeaders(t.Context(), "authorization", "Bearer "+userToken)
	out, err := client.Search(signed, &searchv1.SearchRequest{Q: "ab", Kinds: []string{"model", "run"}})
	require.NoError(t, err)
	require.Equal(t, "run_1", out.GetResults()[0].GetId())
	require.Equal(t, []string{"model", "run"}, called())
	_, err = client.Search(signed, &searchv1.SearchRequest{Q: "ab", Kinds: []string{"nothing"}})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = client.Search(t.Context(), &searchv1.SearchRequest{Q: "ab"})
	require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
}
