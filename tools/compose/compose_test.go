package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// writeFile writes a Compose file and returns its path.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "compose.yaml")
	require.NoError(t, os.WriteFile(path, []byte("name: test\n"+text+"\n"), 0o600))
	return path
}

func TestLoad_resolvesVariablesAndAnchors(t *testing.T) {
	t.Parallel()
	path := writeFile(t, `
x-one: &one {read_only: true}
services:
  a: {<<: *one, image: "a:${TAG}", env_file: [a.env], environment: {B: "2"}}`)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "a.env"), []byte("A=1\nB=1\n"), 0o600))
	p, err := load(t.Context(), path, []string{"TAG=v1"})
	require.NoError(t, err)
	a := p.Services["a"]
	require.True(t, a.ReadOnly)
	require.Equal(t, "a:v1", a.Image)
	require.Equal(t, "1", *a.Environment["A"])
	require.Equal(t, "2", *a.Environment["B"])
}

func TestLoad_rejectsInvalidFiles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ file, want string }{
		"unknown key":       {"services: {one: {image: a:1, restrat: always}}", "restrat"},
		"missing service":   {"services: {one: {image: a:1, depends_on: [two]}}", "two"},
		"missing volume":    {"services: {one: {image: a:1, volumes: ['data:/data']}}", "data"},
		"variable not set":  {"services: {one: {image: 'a:${TAG:?set TAG}'}}", "set TAG"},
		"missing env file":  {"services: {one: {image: a:1, env_file: [none.env]}}", "none.env"},
		"invalid condition": {"services: {one: {image: a:1, depends_on: {two: {condition: ready}}}, two: {image: a:1}}", "condition"},
	} {
		_, err := load(t.Context(), writeFile(t, tc.file), nil)
		require.ErrorContains(t, err, tc.want, name)
	}
}
