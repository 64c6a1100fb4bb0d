package request_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
)

func TestPlainJSON(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header http.Header
		bad    string
	}{
		"no headers":        {http.Header{}, ""},
		"JSON":              {http.Header{"Content-Type": {"application/json"}}, ""},
		"JSON with charset": {http.Header{"Content-Type": {"Application/JSON; charset=UTF-8"}}, ""},
		"identity encoding": {http.Header{"Content-Encoding": {"Identity"}}, ""},
		"gzip encoding":     {http.Header{"Content-Encoding": {"gzip"}}, "content-encoding"},
		"unknown encoding":  {http.Header{"Content-Encoding": {"x"}, "Content-Type": {"application/json"}}, "content-encoding"},
		"other charset":     {http.Header{"Content-Type": {"application/json; charset=latin-1"}}, "content-type"},
		"form":              {http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, "content-type"},
		"two types":         {http.Header{"Content-Type": {"application/json", "application/json"}}, "content-type"},
		"empty type":        {http.Header{"Content-Type": {""}}, "content-type"},
	} {
		got := request.PlainJSON(c.header)
		if c.bad == "" {
			require.Nil(t, got, name)
			continue
		}
		require.Equal(t, fault.Invalid, got.Kind, name)
		require.Equal(t, []any{"header", c.bad}, got.Fields[0].Loc, name)
	}
}
