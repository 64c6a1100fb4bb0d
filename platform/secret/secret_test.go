package secret_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

const planted = "hunter2-planted"

type exported struct{ Password secret.String }

type hidden struct{ password secret.String }

func TestString_redactedForAllVerbs(t *testing.T) {
	t.Parallel()
	s := secret.New(planted)
	values := []any{
		s, &s,
		exported{s},
		&exported{s},
		hidden{s},
		&hidden{s},
		[]secret.String{s},
		map[string]secret.String{"k": s},
		map[string]any{"k": exported{s}},
		struct{ In hidden }{hidden{s}},
	}
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%c", "%T"} {
			out := fmt.Sprintf(verb, v)
			require.NotContains(t, out, planted, "%s of %T", verb, v)
			require.NotContains(t, out, fmt.Sprintf("%x", planted), "%s of %T", verb, v)
		}
	}
	require.Equal(t, secret.Redacted, s.String())
	require.Equal(t, secret.Redacted, s.GoString())
}

func TestString_redactedByEncoders(t *testing.T) {
	t.Parallel()
	s := secret.New(planted)
	asJSON, err := json.Marshal(exported{s})
	require.NoError(t, err)
	require.JSONEq(t, `{"Password":"[redacted]"}`, string(asJSON))
	asXML, err := xml.Marshal(exported{s})
	require.NoError(t, err)
	require.NotContains(t, string(asXML), planted)
	for _, handler := range []func(*bytes.Buffer) slog.Handler{
		func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
	} {
		var b bytes.Buffer
		slog.New(handler(&b)).InfoContext(t.Context(), "x", "a", s, "b", exported{s}, "c", hidden{s}, "d", &s)
		require.NotContains(t, b.String(), planted)
		require.Contains(t, b.String(), secret.Redacted)
	}
}

func TestString_RevealEqualIsZero(t *testing.T) {
	t.Parallel()
	s := secret.New(planted)
	require.Equal(t, planted, s.Reveal())
	require.False(t, s.IsZero())
	require.True(t, s.Equal(secret.New(planted)))
	require.True(t, cmp.Equal(exported{s}, exported{secret.New(planted)}))
	require.False(t, s.Equal(secret.New("other")))
	require.True(t, secret.New("").IsZero())
	require.Empty(t, secret.String{}.Reveal())
	require.Equal(t, secret.Redacted, fmt.Sprint(secret.String{}))
}

func TestString_UnmarshalText_redacted(t *testing.T) {
	t.Parallel()
	var e exported
	require.NoError(t, json.Unmarshal([]byte(`{"Password":"hunter2-planted"}`), &e))
	require.Equal(t, planted, e.Password.Reveal())
	require.ErrorContains(t, json.Unmarshal([]byte(`{"Password":"[redacted]"}`), &e), "printed configuration")
	require.Equal(t, planted, e.Password.Reveal())
}
