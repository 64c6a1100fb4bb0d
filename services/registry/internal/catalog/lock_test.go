package catalog_test

import (
	"archive/tar"
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/codepackage"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// The submitter learns which line of the lock the node would refuse.
func TestResolveSubmission_lock(t *testing.T) {
	t.Parallel()
	d := open(t)
	require.NoError(t, d.Seeder.RunOnce(t.Context()))
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	good := "idna==3.7 --hash=sha256:" + strings.Repeat("0a", 32) + "\n"
	for name, text := range map[string]string{"./good.txt": good, "bad.txt": good + "-r /etc/shadow\n", "app/uv.lock": "version = 1\n"} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}))
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	d.kept[codepackage.Key("prj_1", "ab")] = packed.Bytes()
	for id, b := range map[string]codepackage.Bundle{
		"pkg_good": {SHA256: "ab", Size: 3}, "pkg_large": {SHA256: "ab", Size: 1 << 30}, "pkg_gone": {SHA256: "cd", Size: 3},
	} {
		b.ID, b.State, b.CreatedAt = id, codepackage.StateAccepted, fixtures.Now()
		b.Owner = access.Owner{UserID: "usr_1", ProjectID: "prj_1", Project: "team", Visibility: "team"}
		d.tx(func(ctx context.Context, tx pgx.Tx) error { return d.Bundles.Insert(ctx, tx, &b) })
	}
	for _, c := range []struct{ id, lock, refused string }{
		{"pkg_good", "", ""},
		{"pkg_good", "good.txt", ""},
		{"pkg_good", "bad.txt", `package: bad.txt, line 2: the option "-r" is not allowed`},
		{"pkg_good", "app/uv.lock", "package: uv.lock: the lock has no project"},
		{"pkg_good", "uv.lock", "package: the package has no file uv.lock"},
		{"pkg_large", "bad.txt", ""}, // only the node reads it
		{"pkg_gone", "good.txt", "package: package pkg_gone has not been uploaded"},
	} {
		out, err := d.ResolveSubmission(as(t, "usr_1"), &registrypeerv1.ResolveSubmissionRequest{Recipe: "sft/tiny", PackageId: c.id, Lock: c.lock})
		if c.refused == "" {
			require.NoError(t, err, c)
			require.NotEmpty(t, out.GetPackage().GetUri())
			continue
		}
		require.True(t, fault.Is(err, fault.Refused) && fault.HasCode(err, "package"), "%v: %v", c, err)
		require.Contains(t, fault.From(err).Text(), c.refused)
	}
}
