package blob_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestCheckKey_bounds(t *testing.T) {
	t.Parallel()
	segment := func(n int) string { return strings.Repeat("k", n) }
	for name, c := range map[string]struct {
		key string
		ok  bool
	}{
		"one letter":              {"k", true},
		"longest segment":         {segment(200), true},
		"segment too long":        {segment(201), false},
		"longest key":             {segment(200) + "/" + segment(200) + "/" + segment(110), true},
		"key too long":            {segment(200) + "/" + segment(200) + "/" + segment(111), false},
		"256 segments":            {strings.TrimSuffix(strings.Repeat("a/", 256), "/"), true},
		"dots inside":             {"a..b/c...", true},
		"segment starts with dot": {"a/.b/c", false},
		"folder suffix":           {"a@", false},
		"fullwidth slash":         {"a\uff0fb", false},
		"incomplete UTF-8":        {"a\xc3", false},
		"trailing line break":     {"a\n", false},
	} {
		err := blob.CheckKey(c.key)
		require.Equal(t, c.ok, err == nil, "%s: %v", name, err)
		if !c.ok {
			require.True(t, fault.HasCode(err, blob.CodeKey), name)
			require.LessOrEqual(t, len(fault.From(err).Fields[0].Input.(string)), 512, "the echoed input is bounded")
		}
		_, ok := blob.ParseURI(blob.URI(c.key))
		require.Equal(t, c.ok, ok, name)
	}
}

func TestCheckPrefix(t *testing.T) {
	t.Parallel()
	for prefix, ok := range map[string]bool{
		"": true, "run": true, "run/": true, "run/run1/": true, "run/r": true,
		"/": false, "//": false, "run//": false, "../": false, ".": false, "run/.": false, "run/../": false, "a b": false, "*": false,
	} {
		require.Equal(t, ok, blob.CheckPrefix(prefix) == nil, prefix)
	}
}

func TestCheckContent(t *testing.T) {
	t.Parallel()
	good := sum("x")
	for name, c := range map[string]struct {
		size   int64
		sha256 string
		kind   fault.Kind
		field  string
	}{
		"empty":           {0, good, "", ""},
		"at the limit":    {100, good, "", ""},
		"one byte over":   {101, good, fault.TooLarge, ""},
		"negative":        {-1, good, fault.Invalid, "size"},
		"no digest":       {1, "", fault.Invalid, "sha256"},
		"short digest":    {1, good[:62], fault.Invalid, "sha256"},
		"odd length":      {1, good[:63], fault.Invalid, "sha256"},
		"long digest":     {1, good + "00", fault.Invalid, "sha256"},
		"upper case":      {1, strings.ToUpper(good), fault.Invalid, "sha256"},
		"not hex":         {1, "g" + good[1:], fault.Invalid, "sha256"},
		"with algorithm":  {1, "sha256:" + good, fault.Invalid, "sha256"},
		"line break":      {1, good[:63] + "\n", fault.Invalid, "sha256"},
		"Cyrillic letter": {1, "а" + good[2:], fault.Invalid, "sha256"},
	} {
		err := blob.CheckContent(c.size, c.sha256, 100)
		if c.kind == "" {
			require.NoError(t, err, name)
			continue
		}
		require.True(t, fault.Is(err, c.kind), "%s: %v", name, err)
		if c.field != "" {
			require.Equal(t, []any{"body", c.field}, fault.From(err).Fields[0].Loc, name)
		}
	}
}

func TestErrors_httpStatus(t *testing.T) {
	t.Parallel()
	for code, c := range map[string]struct {
		err    error
		status int
	}{
		blob.CodeAbsent:   {blob.Absent("a"), http.StatusNotFound},
		blob.CodeDiffers:  {blob.Differs("a"), http.StatusConflict},
		blob.CodeTooLarge: {blob.TooLarge(7), http.StatusRequestEntityTooLarge},
		blob.CodeKey:      {blob.CheckKey("../a"), http.StatusUnprocessableEntity},
		blob.CodeStore:    {blob.Changed("a", nil), http.StatusBadGateway},
	} {
		require.True(t, fault.HasCode(c.err, code), code)
		require.Equal(t, c.status, fault.Render(c.err, "").Status, code)
	}
}
