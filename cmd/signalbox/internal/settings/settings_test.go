package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func config() Config {
	return Config{Current: "prod", Contexts: map[string]Context{
		"prod": {Server: "https://prod.example", Project: "p-prod"}, "staging": {Server: "https://staging.example", Store: "file"},
		"copy": {Server: "https://prod.example"}, "broken": {Server: "ftp://x"},
	}}
}

func TestChoose_precedence(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		flags                 Flags
		env                   map[string]string
		folder                Folder
		server, ctx, project  string
		folderOnly, noCurrent bool
	}{
		"nothing":                       {server: "https://prod.example", ctx: "prod", project: "p-prod"},
		"no current context":            {noCurrent: true},
		"folder over context":           {folder: Folder{Context: "staging", Project: "f"}, server: "https://staging.example", ctx: "staging", project: "f"},
		"folder names a known server":   {folder: Folder{Server: "https://Staging.example/"}, server: "https://staging.example", ctx: "staging"},
		"folder names an unknown one":   {folder: Folder{Server: "evil.example"}, server: "https://evil.example", folderOnly: true},
		"folder changes the server":     {folder: Folder{Context: "prod", Server: "https://evil.example"}, server: "https://evil.example", ctx: "prod", project: "p-prod", folderOnly: true},
		"environment over folder":       {env: map[string]string{EnvServer: "new.example"}, folder: Folder{Context: "staging"}, server: "https://new.example"},
		"context of the environment":    {env: map[string]string{EnvContext: "staging"}, folder: Folder{Server: "evil.example"}, server: "https://staging.example", ctx: "staging"},
		"flag over environment":         {flags: Flags{Context: "staging"}, env: map[string]string{EnvServer: "new.example"}, server: "https://staging.example", ctx: "staging"},
		"server flag over its context":  {flags: Flags{Server: "https://other.example"}, env: map[string]string{EnvContext: "staging"}, server: "https://other.example"},
		"current of two contexts":       {flags: Flags{Server: "https://prod.example:443"}, server: "https://prod.example", ctx: "prod", project: "p-prod"},
		"both flags":                    {flags: Flags{Server: "https://other.example", Context: "staging"}, server: "https://other.example", ctx: "staging"},
		"spaces count as nothing":       {flags: Flags{Server: " ", Context: "\t"}, server: "https://prod.example", ctx: "prod", project: "p-prod"},
		"project of flag":               {flags: Flags{Project: "a"}, env: map[string]string{EnvProject: "b"}, folder: Folder{Project: "c"}, server: "https://prod.example", ctx: "prod", project: "a"},
		"project of environment":        {env: map[string]string{EnvProject: "b"}, folder: Folder{Project: "c"}, server: "https://prod.example", ctx: "prod", project: "b"},
		"project of another is unknown": {flags: Flags{Server: "https://other.example"}, server: "https://other.example"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config()
			if tc.noCurrent {
				c.Current = "gone"
			}
			got, err := Choose(tc.flags, func(name string) string { return tc.env[name] }, tc.folder, c)
			require.NoError(t, err)
			require.Equal(t, []any{tc.server, tc.ctx, tc.project, tc.folderOnly}, []any{got.Server, got.Name, got.Project, got.FolderOnly})
		})
	}
}

func TestChoose_refusals(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	_, err := Choose(Flags{Context: "gone"}, none, Folder{}, config())
	require.ErrorIs(t, err, ErrNoContext)
	_, err = Choose(Flags{}, none, Folder{Context: "gone"}, config())
	require.ErrorIs(t, err, ErrNoContext)
	_, err = Choose(Flags{Context: "broken"}, none, Folder{}, config())
	require.ErrorContains(t, err, "the context broken")
	_, err = Choose(Flags{Server: "https://user:hunter2@x.example"}, none, Folder{}, config())
	require.ErrorContains(t, err, "is not the address of an installation")
	require.NotContains(t, err.Error(), "hunter2")
}

func TestBaseURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://h.example": "https://h.example", "https://H.Example:443/a/?q#f": "https://h.example", "http://h.example:80": "http://h.example",
		"http://h.example:443/": "http://h.example:443", "h.example": "https://h.example", "h.example:8443/x": "https://h.example:8443",
		"HTTPS://h.example": "https://h.example", "https://h.example:": "https://h.example",
		"localhost": "http://localhost", "localhost:8080": "http://localhost:8080", "127.0.0.1:8080": "http://127.0.0.1:8080", "127.1.2.3": "http://127.1.2.3",
		"::1": "http://[::1]", "[::1]": "http://[::1]", "[::1]:8080": "http://[::1]:8080", "2001:DB8::1": "https://[2001:db8::1]",
		"localhost.evil.example": "https://localhost.evil.example", "127.0.0.1.evil.example": "https://127.0.0.1.evil.example",
	} {
		got, err := BaseURL(address)
		require.NoError(t, err, address)
		require.Equal(t, want, got, address)
		again, err := BaseURL(got)
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
	got, err := BaseURL(" h.example\n")
	require.NoError(t, err)
	require.Equal(t, "https://h.example", got)
	for _, address := range []string{
		"", " ", "https://", "ftp://h", "file:///etc/passwd", "javascript://h", "https://user@h", "user:pass@h", "https://h e", "https://h\tx",
		"https://h\\@evil.example", "https://good.example%2f@evil.example", "https://:80", "://h", "/api", "http://h:port", "https://h|x",
	} {
		got, err := BaseURL(address)
		require.Error(t, err, "%q gives %q", address, got)
	}
}

func TestLoad_unknownKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got, err := Load(dir)
	require.NoError(t, err, "a missing file is an empty one")
	require.NotNil(t, got.Contexts)
	large := strings.Repeat("# filler\n", maxFile/9+10)
	for text, want := range map[string]string{
		"curent: prod\n": "field curent not found", "contexts:\n  a:\n    sever: https://x\n": "field sever not found",
		"contexts:\n  a:\n    token: hunter2\n": "field token not found", "{": "read " + dir, large: "more than",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o600))
		_, err := Load(dir)
		require.ErrorContains(t, err, want)
		require.Error(t, Update(dir, func(*Config) error { return nil }), "a damaged file is not replaced")
		raw, err := os.ReadFile(filepath.Join(dir, "config.yaml"))
		require.NoError(t, err)
		require.Equal(t, text, string(raw))
	}
}

func TestLoadFolder(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	deep := filepath.Join(top, "a", "b")
	require.NoError(t, os.MkdirAll(deep, 0o700))
	got, err := LoadFolder(deep)
	require.NoError(t, err)
	require.Empty(t, got)
	require.NoError(t, os.WriteFile(filepath.Join(top, FolderFile), []byte("project: p\nserver: https://x.example\n"), 0o600))
	got, err = LoadFolder(deep)
	require.NoError(t, err)
	require.Equal(t, Folder{Project: "p", Server: "https://x.example"}, got)
	require.NoError(t, os.WriteFile(filepath.Join(deep, FolderFile), []byte("project: q\n"), 0o600))
	got, err = LoadFolder(deep)
	require.NoError(t, err)
	require.Equal(t, Folder{Project: "q"}, got, "files are not merged")
	require.NoError(t, os.WriteFile(filepath.Join(deep, FolderFile), []byte("token: hunter2\n"), 0o600))
	_, err = LoadFolder(deep)
	require.ErrorContains(t, err, "field token not found")
}

// Two logins at the same time lose nothing of each other.
func TestUpdate_concurrent(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "signalbox")
	var wg sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		wg.Go(func() {
			errs[i] = Update(dir, func(c *Config) error {
				c.Contexts[fmt.Sprint("c", i)] = Context{Server: "https://x.example"}
				return nil
			})
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	got, err := Load(dir)
	require.NoError(t, err)
	require.Len(t, got.Contexts, len(errs))
	for name, mode := range map[string]os.FileMode{"": 0o700, "config.yaml": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm())
	}
	failed := errors.New("no")
	require.ErrorIs(t, Update(dir, func(c *Config) error { c.Contexts = nil; return failed }), failed)
	again, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, got, again)
}

func TestDir(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ xdg, home, want string }{
		{"/x", "/home/u", "/x/signalbox"}, {"", "/home/u", "/home/u/.config/signalbox"}, {"relative", "/home/u", "/home/u/.config/signalbox"},
	} {
		got, err := Dir(func(name string) string { return map[string]string{"XDG_CONFIG_HOME": tc.xdg, "HOME": tc.home}[name] })
		require.NoError(t, err)
		require.Equal(t, tc.want, got)
	}
	_, err := Dir(func(string) string { return "" })
	require.ErrorContains(t, err, "set HOME")
}
