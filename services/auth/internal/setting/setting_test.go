package setting

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// everySetting returns a setting of each type.
func everySetting() []Definition {
	return []Definition{
		{Key: "a.text", Type: String, Default: json.RawMessage(`"x"`), Min: 1, Max: 8},
		{Key: "b.count", Type: Integer, Default: json.RawMessage(`3`), Min: -1, Max: 10},
		{Key: "c.switch", Type: Boolean, Default: json.RawMessage(`true`)},
		{Key: "d.list", Type: StringList, Default: json.RawMessage(`[]`), Max: 2},
		{Key: "e.secret", Type: Secret, Min: 8, Max: 64},
		{Key: "f.secret", Type: Secret, Min: 8, Max: 64},
	}
}

type harness struct {
	pool  *pgxpool.Pool
	ring  *secret.Keyring
	clock *clock.Fake
	log   *audit.Log
}

func open(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	return &harness{
		pool: pgtest.New(t, pgtest.Schema{Name: "auth", Migrations: files}).Pool("auth"), ring: newRing(t), clock: clk,
		log: audit.NewLog(clk, id.NewSource(clk, rand.Reader), "auth"),
	}
}

func newRing(t *testing.T) *secret.Keyring {
	t.Helper()
	raw := make([]byte, 32)
	_, err := rand.Read(raw)
	require.NoError(t, err)
	r, err := secret.NewKeyring(secret.Key{ID: "k1", Bytes: raw})
	require.NoError(t, err)
	return r
}

// replica returns the settings server of a process that uses the database.
func (b *harness) replica(known []Definition) *Server {
	return &Server{Settings: &Settings{Pool: b.pool, Keyring: b.ring, Audit: b.log, Clock: b.clock, Known: known}}
}

func admin(t *testing.T) *authn.Caller {
	t.Helper()
	return &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Username: "ada"}
}

func put(t *testing.T, s *Server, key, value string, version int) (*authv1.Setting, error) {
	t.Helper()
	return s.PutSetting(authn.NewContext(t.Context(), admin(t)), &authv1.PutSettingRequest{Key: key, Value: []byte(value), Version: int32(version)})
}

func TestKnownSettingsAreWellFormed(t *testing.T) {
	t.Parallel()
	last := ""
	for _, d := range Known() {
		require.Greater(t, d.Key, last, "settings must be sorted by key")
		require.Regexp(t, `^[a-z]+(\.[a-z_]+)+$`, d.Key)
		require.NotEmpty(t, d.Description)
		if d.Type != Secret {
			in, err := d.parse(d.Default)
			require.NoError(t, err, d.Key)
			require.JSONEq(t, string(d.Default), string(in.value))
		}
		last = d.Key
	}
}

func TestSettings_Put_overridesDefault(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.replica(everySetting())
	out, err := s.GetSetting(t.Context(), &authv1.GetSettingRequest{Key: "a.text"})
	require.NoError(t, err)
	require.Equal(t, `"x"`, string(out.GetValue()))
	require.False(t, out.GetSet())
	require.Zero(t, out.GetVersion())
	require.Nil(t, out.GetChangedAt())
	out, err = put(t, s, "a.text", ` "höher" `, 0)
	require.NoError(t, err)
	require.Equal(t, `"höher"`, string(out.GetValue()))
	require.True(t, out.GetSet())
	require.EqualValues(t, 1, out.GetVersion())
	require.Equal(t, "ada", out.GetChangedBy())
	out, err = put(t, s, "a.text", `null`, 1)
	require.NoError(t, err)
	require.Equal(t, `"x"`, string(out.GetValue()))
	require.False(t, out.GetSet())
	require.EqualValues(t, 2, out.GetVersion())
	history, err := s.ListSettingVersions(t.Context(), &authv1.ListSettingVersionsRequest{Key: "a.text"})
	require.NoError(t, err)
	require.Len(t, history.GetVersions(), 2)
	require.Empty(t, history.GetVersions()[0].GetValue())
	require.Equal(t, `"höher"`, string(history.GetVersions()[1].GetValue()))
	all, err := s.ListSettings(t.Context(), &authv1.ListSettingsRequest{Offset: new(int32(1))})
	require.NoError(t, err)
	require.Len(t, all.GetSettings(), 5)
	require.Equal(t, "b.count", all.GetSettings()[0].GetKey())
	none, err := s.ListSettings(t.Context(), &authv1.ListSettingsRequest{Offset: new(int32(100))})
	require.NoError(t, err)
	require.Empty(t, none.GetSettings())
}

func TestSettings_Put_invalidValue(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.replica(everySetting())
	for key, c := range map[string]struct{ good, bad []string }{
		"a.text":   {[]string{`"12345678"`, `"ü€𝄞"`}, []string{`""`, `" "`, `" a"`, `"a "`, `"123456789"`, `1`, `true`, `[]`, `{}`, `"a\u0000b"`, `"a\nb"`, `"\u202e"`, `x`}},
		"b.count":  {[]string{`-1`, `10`, `0`}, []string{`-2`, `11`, `1.5`, `"3"`, `1e3`, `9223372036854775808`, `true`}},
		"c.switch": {[]string{`true`, `false`}, []string{`0`, `"true"`, `[]`}},
		"d.list":   {[]string{`[]`, `["a","b"]`}, []string{`["a","b","c"]`, `[1]`, `"a"`, `[""]`, `["a\u0000"]`, `{"a":1}`}},
		"e.secret": {[]string{`"12345678"`}, []string{`""`, `"short"`, `12345678`, `"` + strings.Repeat("x", 65) + `"`, `["12345678"]`}},
	} {
		version := 0
		for _, value := range c.good {
			out, err := put(t, s, key, value, version)
			require.NoError(t, err, "%s %s", key, value)
			version = int(out.GetVersion())
		}
		for _, value := range c.bad {
			_, err := put(t, s, key, value, version)
			require.True(t, fault.Is(err, fault.Invalid), "%s %s: %v", key, value, err)
			require.Equal(t, []any{"value"}, fault.From(err).Fields[0].Loc)
			require.Nil(t, fault.From(err).Fields[0].Input, "the error must omit the value, which may be a secret")
		}
	}
	_, err := put(t, s, "no.such", `1`, 0)
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	_, err = s.GetSetting(t.Context(), &authv1.GetSettingRequest{Key: "no.such"})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	_, err = s.ListSettingVersions(t.Context(), &authv1.ListSettingVersionsRequest{Key: "no.such"})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

// The gateway passes a JSON null as an empty value.
func TestSettings_Put_emptyResetsToDefault(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.replica(everySetting())
	for _, key := range []string{"a.text", "e.secret"} {
		_, err := put(t, s, key, `"12345678"`, 0)
		require.NoError(t, err)
		out, err := put(t, s, key, ``, 1)
		require.NoError(t, err)
		require.False(t, out.GetSet(), key)
		require.Equal(t, out.GetDefault(), out.GetValue(), key)
		_, err = put(t, s, key, ``, 1)
		require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	}
	plain, err := s.Settings.Reveal(t.Context(), "e.secret")
	require.NoError(t, err)
	require.True(t, plain.IsZero())
}

// If several callers change the same version, one succeeds. The others get an error with the new version.
func TestSettings_Put_versionConflict(t *testing.T) {
	t.Parallel()
	b := open(t)
	const n = 16
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		s := b.replica(everySetting())
		wg.Go(func() { _, errs[i] = put(t, s, "b.count", `5`, 0) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, CodeVersion), "%v", err)
		require.Contains(t, err.Error(), "version 1")
	}
	require.Equal(t, 1, won)
	_, err := put(t, b.replica(everySetting()), "b.count", `6`, 2)
	require.True(t, fault.Is(err, fault.Conflict), "a version that does not exist yet is rejected: %v", err)
	rows, err := audit.List(t.Context(), b.pool, audit.Filter{}, request.Page{Limit: 10})
	require.NoError(t, err)
	require.Len(t, rows, 1, "rejected changes are not audited")
}

// A reader caches what it has read, but every read returns the current value, even if another replica changed it.
func TestGet_seesChangeAtNextRead(t *testing.T) {
	t.Parallel()
	b := open(t)
	reader, writer := b.replica(everySetting()).Settings, b.replica(everySetting())
	for version := range 5 {
		n, err := Get[int](t.Context(), reader, "b.count")
		require.NoError(t, err)
		require.Equal(t, version+3, n)
		_, err = put(t, writer, "b.count", json.Number(string(rune('4'+version))).String(), version)
		require.NoError(t, err)
	}
	on, err := Get[bool](t.Context(), reader, "c.switch")
	require.NoError(t, err)
	require.True(t, on)
	list, err := Get[[]string](t.Context(), reader, "d.list")
	require.NoError(t, err)
	require.Empty(t, list)
}
