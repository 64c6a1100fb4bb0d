package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/archive"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

const limit = 1 << 20

// tarBuilder builds a tar file.
type tarBuilder struct {
	t *testing.T
	b bytes.Buffer
	w *tar.Writer
}

func newTarBuilder(t *testing.T) *tarBuilder {
	t.Helper()
	out := &tarBuilder{t: t}
	out.w = tar.NewWriter(&out.b)
	return out
}

func (p *tarBuilder) put(h tar.Header, data string) *tarBuilder {
	p.t.Helper()
	h.Size = int64(len(data))
	require.NoError(p.t, p.w.WriteHeader(&h))
	_, err := io.WriteString(p.w, data)
	require.NoError(p.t, err)
	return p
}

func (p *tarBuilder) file(name, data string) *tarBuilder {
	p.t.Helper()
	return p.put(tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, data)
}

func (p *tarBuilder) folder(name string) *tarBuilder {
	p.t.Helper()
	return p.put(tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755}, "")
}

func (p *tarBuilder) end() []byte {
	p.t.Helper()
	require.NoError(p.t, p.w.Close())
	return p.b.Bytes()
}

func packed(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func inspect(data []byte) (archive.Facts, error) {
	return archive.Inspect(bytes.NewReader(data), int64(len(data)), limit)
}

func TestInspect_validPackage(t *testing.T) {
	t.Parallel()
	data := newTarBuilder(t).folder("./").folder("src/").file("./src/train.py", "print(1)").file("src/.env.example", "A=").file("README", "").
		file("src/environment.py", "x").file(strings.Repeat("d/", archive.MaxDepth-1)+"deep", "y").end()
	for name, form := range map[string][]byte{"plain": data, "gzipped": packed(t, data)} {
		facts, err := inspect(form)
		require.NoError(t, err, name)
		require.Equal(t, archive.Facts{Entries: 7, Bytes: 12}, facts, name)
	}
	_, err := inspect(newTarBuilder(t).file("full", strings.Repeat("x", limit)).end())
	require.NoError(t, err, "a file of exactly the limit is accepted")
}

func TestInspect_rejections(t *testing.T) {
	t.Parallel()
	one := func(h tar.Header) []byte { return newTarBuilder(t).put(h, "").end() }
	named := func(name string) []byte { return newTarBuilder(t).file(name, "x").end() }
	good := newTarBuilder(t).file("a", strings.Repeat("x", 4096)).end()
	flipped := packed(t, good)
	flipped[len(flipped)-5] ^= 1 // a bit of the checksum
	for name, c := range map[string]struct {
		data []byte
		gate string
		kind fault.Kind
	}{
		"empty input":          {nil, archive.GatePackage, fault.Refused},
		"not a tar":            {[]byte(strings.Repeat("no tar ", 200)), archive.GatePackage, fault.Refused},
		"zip":                  {append([]byte("PK\x03\x04"), make([]byte, 1000)...), archive.GatePackage, fault.Refused},
		"no members":           {newTarBuilder(t).end(), archive.GatePackage, fault.Refused},
		"truncated tar":        {good[:700], archive.GatePackage, fault.Refused},
		"truncated gzip":       {packed(t, good)[:40], archive.GatePackage, fault.Refused},
		"partial gzip header":  {[]byte("\x1f\x8b"), archive.GatePackage, fault.Refused},
		"wrong gzip checksum":  {flipped, archive.GatePackage, fault.Refused},
		"outside":              {named("../a"), archive.GatePackage, fault.Refused},
		"outside via inside":   {named("a/../../b"), archive.GatePackage, fault.Refused},
		"inside with dots":     {named("a/../b"), archive.GatePackage, fault.Refused},
		"absolute":             {named("/etc/passwd"), archive.GatePackage, fault.Refused},
		"backslash":            {named(`..\a`), archive.GatePackage, fault.Refused},
		"line break":           {named("a\nb"), archive.GatePackage, fault.Refused},
		"two slashes":          {named("a//b"), archive.GatePackage, fault.Refused},
		"too deep":             {named(strings.Repeat("d/", archive.MaxDepth) + "a"), archive.GatePackage, fault.Refused},
		"long name":            {named("src/" + strings.Repeat("d", 256)), archive.GatePackage, fault.Refused},
		"long folder name":     {named(strings.Repeat("ü", 128) + "/a"), archive.GatePackage, fault.Refused},
		"long path":            {named(strings.Repeat("d", 1025)), archive.GatePackage, fault.Refused},
		"symlink":              {one(tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), archive.GatePackage, fault.Refused},
		"hard link":            {one(tar.Header{Name: "a", Typeflag: tar.TypeLink, Linkname: "b"}), archive.GatePackage, fault.Refused},
		"device":               {one(tar.Header{Name: "a", Typeflag: tar.TypeChar}), archive.GatePackage, fault.Refused},
		"named pipe":           {one(tar.Header{Name: "a", Typeflag: tar.TypeFifo}), archive.GatePackage, fault.Refused},
		"setuid":               {one(tar.Header{Name: "a", Typeflag: tar.TypeReg, Mode: 0o4755}), archive.GatePackage, fault.Refused},
		"duplicate":            {newTarBuilder(t).file("a", "1").file("a", "2").end(), archive.GatePackage, fault.Refused},
		"duplicate with dot":   {newTarBuilder(t).file("a", "1").file("./a", "2").end(), archive.GatePackage, fault.Refused},
		"duplicate by case":    {newTarBuilder(t).file("a/B", "1").file("A/b", "2").end(), archive.GatePackage, fault.Refused},
		"file, then folder":    {newTarBuilder(t).file("a", "1").file("a/b", "2").end(), archive.GatePackage, fault.Refused},
		"folder, then file":    {newTarBuilder(t).file("a/b", "1").file("a", "2").end(), archive.GatePackage, fault.Refused},
		"too large":            {newTarBuilder(t).file("a", strings.Repeat("x", limit)).file("b", "x").end(), archive.GatePackage, fault.TooLarge},
		"too large, gzipped":   {packed(t, newTarBuilder(t).file("a", strings.Repeat("xyz", limit/2)).end()), archive.GatePackage, fault.TooLarge},
		"env file":             {named("src/.env"), archive.GateSensitive, fault.Refused},
		"env file, upper case": {named("src/.ENV"), archive.GateSensitive, fault.Refused},
		"env file with suffix": {named(".env.production"), archive.GateSensitive, fault.Refused},
		"certificate":          {named("tls/server.pem"), archive.GateSensitive, fault.Refused},
		"RSA key":              {named("id_rsa"), archive.GateSensitive, fault.Refused},
		"RSA key with suffix":  {named(".ssh/id_rsa_work"), archive.GateSensitive, fault.Refused},
		"Ed25519 key":          {named("id_ed25519"), archive.GateSensitive, fault.Refused},
		"netrc":                {named(".netrc"), archive.GateSensitive, fault.Refused},
		"settings of direnv":   {named(".envrc"), archive.GateSensitive, fault.Refused},
		"key of a server":      {named("tls/server.key"), archive.GateSensitive, fault.Refused},
		"credentials":          {named("cloud/credentials.json"), archive.GateSensitive, fault.Refused},
		"kubeconfig":           {named("prod.kubeconfig"), archive.GateSensitive, fault.Refused},
		"login of Kaggle":      {named("home/.kaggle/kaggle.json"), archive.GateSensitive, fault.Refused},
		"token of Vault":       {named(".vault-token"), archive.GateSensitive, fault.Refused},
		"login of Terraform":   {named(".terraformrc"), archive.GateSensitive, fault.Refused},
		"kubeconfig of a user": {named("home/.kube/config"), archive.GateSensitive, fault.Refused},
	} {
		_, err := inspect(c.data)
		require.True(t, fault.Is(err, c.kind) && fault.HasCode(err, c.gate), "%s: %v", name, err)
		require.True(t, strings.HasPrefix(fault.From(err).Text(), c.gate+": "), "%s: %v", name, err)
	}
}

// zeros is a reader that returns zero bytes. The field left counts the bytes to return, and the field read counts the
// bytes already returned.
type zeros struct{ left, read int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.left)
	clear(p[:n])
	z.left -= n
	z.read += n
	return int(n), nil
}

func TestInspect_compressionBomb(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	out := tar.NewWriter(w)
	const size = 256 << 20
	require.NoError(t, out.WriteHeader(&tar.Header{Name: "a", Typeflag: tar.TypeReg, Size: size, Mode: 0o644}))
	_, err := io.Copy(out, &zeros{left: size})
	require.NoError(t, err)
	require.NoError(t, errors.Join(out.Close(), w.Close()))
	data := b.Bytes()
	_, err = archive.Inspect(bytes.NewReader(data), int64(len(data)), limit)
	require.True(t, fault.Is(err, fault.TooLarge), "a size in the header over the limit must be rejected: %v", err)
	_, err = archive.Inspect(bytes.NewReader(data), int64(len(data)), 4<<30)
	require.True(t, fault.Is(err, fault.TooLarge), "a compression ratio over its limit must be rejected: %v", err)
	require.ErrorContains(t, err, "200 times")
}

func TestInspect_bytesAfterEndCountTowardLimit(t *testing.T) {
	t.Parallel()
	data := newTarBuilder(t).file("a", "x").end()
	_, err := inspect(append(bytes.Clone(data), make([]byte, 4096)...))
	require.NoError(t, err, "zero padding after the end is normal")
	tail := append(packed(t, data), packed(t, make([]byte, 64<<20))...)
	_, err = inspect(tail)
	require.True(t, fault.Is(err, fault.TooLarge), "%v", err)
}

// broken is a reader that reads from another reader and, at its end, returns errDisk instead of io.EOF.
type broken struct{ from io.Reader }

var errDisk = errors.New("the disk is gone")

func (b broken) Read(p []byte) (int, error) {
	n, err := b.from.Read(p[:min(len(p), 600)])
	if errors.Is(err, io.EOF) {
		err = errDisk
	}
	return n, err
}

func TestInspect_readerError(t *testing.T) {
	t.Parallel()
	data := newTarBuilder(t).file("a", strings.Repeat("x", 4096)).end()
	for name, form := range map[string][]byte{"plain": data, "gzipped": packed(t, fmt.Append(nil, data))} {
		_, err := archive.Inspect(broken{bytes.NewReader(form[:len(form)/2])}, int64(len(form)), limit)
		require.ErrorIs(t, err, errDisk, name)
		require.False(t, fault.Is(err, fault.Refused), name)
	}
	_, err := archive.Inspect(broken{bytes.NewReader(nil)}, 0, limit)
	require.ErrorIs(t, err, errDisk)
}

func FuzzInspect(f *testing.F) {
	f.Add([]byte("\x1f\x8b"), false)
	f.Add([]byte("no tar"), true)
	f.Fuzz(func(t *testing.T, data []byte, zip bool) {
		if zip {
			data = packed(t, data)
		}
		facts, err := inspect(data)
		if err == nil {
			require.LessOrEqual(t, facts.Bytes, int64(limit))
			return
		}
		require.True(t, fault.HasCode(err, archive.GatePackage) || fault.HasCode(err, archive.GateSensitive), "%v", err)
	})
}
