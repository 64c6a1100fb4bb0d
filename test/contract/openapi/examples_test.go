package openapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/contract/openapi"
)

// TestDocument_examples checks that each request body and each body of a success has an example that its schema
// accepts. The examples come from the golden tests: see docs/contributing/api.md.
func TestDocument_examples(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, op := range load(t).Operations() {
		n, faults := op.CheckExamples()
		checked += n
		assert.Empty(t, faults, "%s %s", op.Method, op.Path)
	}
	require.Greater(t, checked, 300)
}

func TestOperation_RequestExample(t *testing.T) {
	t.Parallel()
	d, err := openapi.Parse([]byte(`{"paths":{"/x":{"get":{"operationId":"a"},"post":{"operationId":"b","requestBody":{"content":
		{"application/json":{"example":{"number":1.50}}}}}}}}`))
	require.NoError(t, err)
	for i, want := range []string{"", `{"number":1.50}`} {
		body, err := d.Operations()[i].RequestExample()
		require.NoError(t, err)
		require.Equal(t, want, string(body))
	}
}

func TestOperation_CheckExamples(t *testing.T) {
	t.Parallel()
	const frame = `{"paths":{"/x":{"post":{"operationId":"x","requestBody":{"content":{"application/json":{%s"schema":{"type":"object"}}}},
		"responses":{"200":{"content":{"application/json":{%s"schema":{"type":"integer"}}}},"304":{},"400":{"content":{"application/json":{}}}}}}}}`
	for name, c := range map[string]struct{ request, response, want string }{
		"both":                  {`"example":{},`, `"example":1,`, ""},
		"no request":            {"", `"example":1,`, "requestBody application/json: the example is missing"},
		"no response":           {`"example":{},`, "", "200 application/json: the example is missing"},
		"an invalid request":    {`"example":[],`, `"example":1,`, "requestBody application/json: the example is invalid"},
		"an invalid response":   {`"example":{},`, `"example":"1",`, "200 application/json: the example is invalid"},
		"null is not a missing": {`"example":{},`, `"example":null,`, "the example is invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := openapi.Parse(fmt.Appendf(nil, frame, c.request, c.response))
			require.NoError(t, err)
			checked, faults := d.Operations()[0].CheckExamples()
			require.Equal(t, 2, checked)
			if c.want == "" {
				require.Empty(t, faults)
				return
			}
			require.Contains(t, strings.Join(faults, "\n"), c.want)
		})
	}
}
