package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

const adminRole = "postgres"

// cluster creates and checks the data folder of one server.
type cluster struct {
	cfg  Config
	data string
}

// ensure creates the cluster unless it is complete, and returns the password.
func (c *cluster) ensure(ctx context.Context) (secret.String, error) {
	password, err := c.password()
	if err != nil {
		return secret.String{}, err
	}
	have, err := os.ReadFile(filepath.Join(c.data, "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return password, c.initdb(ctx)
	}
	if err != nil {
		return secret.String{}, fmt.Errorf("read the version of the cluster: %w", err)
	}
	if err := c.checkVersion(ctx, strings.TrimSpace(string(have))); err != nil {
		return secret.String{}, err
	}
	return password, c.own(c.data)
}

// password reads the password, or creates it and writes it to disk before the cluster is created.
func (c *cluster) password() (secret.String, error) {
	path := filepath.Join(c.cfg.Dir, "password")
	raw, err := os.ReadFile(path)
	if text := strings.TrimSpace(string(raw)); err == nil && text != "" {
		return secret.New(text), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return secret.String{}, fmt.Errorf("read the Postgres password: %w", err)
	}
	entropy := c.cfg.Entropy
	if entropy == nil {
		entropy = rand.Reader
	}
	var bits [32]byte
	if _, err := io.ReadFull(entropy, bits[:]); err != nil {
		return secret.String{}, fmt.Errorf("read random bytes: %w", err)
	}
	text := hex.EncodeToString(bits[:])
	if err := writeFile(path, text+"\n"); err != nil {
		return secret.String{}, fmt.Errorf("write the Postgres password: %w", err)
	}
	return secret.New(text), nil
}

// initdb creates the cluster in a temporary folder and renames it, so that a kill
// leaves no incomplete cluster at the final path.
func (c *cluster) initdb(ctx context.Context) error {
	fresh := c.data + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("remove the incomplete cluster: %w", err)
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return fmt.Errorf("create the cluster folder: %w", err)
	}
	if err := c.own(fresh); err != nil {
		return err
	}
	out, err := c.create(ctx, fresh, "C.UTF-8")
	if err != nil && bytes.Contains(out, []byte("invalid locale name")) {
		out, err = c.create(ctx, fresh, "C") // pg.CheckLocale warns
	}
	if err != nil {
		return fmt.Errorf("create the cluster: %w: %s", err, lastLines(out))
	}
	if err := os.Rename(fresh, c.data); err != nil {
		return fmt.Errorf("rename the new cluster: %w", err)
	}
	return nil
}

// create runs initdb. The locale of characters decides which characters are letters: with C only those of ASCII are, and
// search does not find similar names in Chinese.
func (c *cluster) create(ctx context.Context, dir, characters string) ([]byte, error) {
	args := []string{
		"-D", dir, "-U", adminRole, "--pwfile", filepath.Join(c.cfg.Dir, "password"), "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--lc-ctype=" + characters, "--data-checksums", "--no-instructions",
	}
	if c.cfg.Unsafe {
		args = append(args, "--no-sync", "--wal-segsize=4")
	}
	return output(command(ctx, c.cfg.identity, c.cfg.BinDir, "initdb", args...))
}

// checkVersion returns an error for a version mismatch, which Postgres itself would only log.
func (c *cluster) checkVersion(ctx context.Context, have string) error {
	out, err := output(command(ctx, c.cfg.identity, c.cfg.BinDir, "postgres", "--version"))
	if err != nil {
		return fmt.Errorf("get the Postgres version: %w", err)
	}
	major := regexp.MustCompile(`(\d+)(\.\d+|devel|beta|rc)`).FindSubmatch(out)
	if major == nil || string(major[1]) != have {
		return fmt.Errorf("%s was created by Postgres %s but %s contains %q; configure the folder of the matching programs or move the data with pg_dumpall",
			c.data, have, c.cfg.BinDir, strings.TrimSpace(string(out)))
	}
	return nil
}

// own changes the owner of the files to the user that the server runs as, if necessary.
func (c *cluster) own(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("stat %s: %w", dir, err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) == c.cfg.identity.owner {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	err = fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(path, c.cfg.identity.owner, c.cfg.identity.owner)
	})
	if err := errors.Join(err, root.Close()); err != nil {
		return fmt.Errorf("change the owner of %s to the user that Postgres runs as: %w", dir, err)
	}
	return nil
}

// writeFile replaces a small private file atomically.
func writeFile(path, text string) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
