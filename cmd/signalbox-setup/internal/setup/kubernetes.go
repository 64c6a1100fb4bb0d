package setup

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

const (
	typeOpaque = "Opaque"
	typeTLS    = "kubernetes.io/tls"
)

// kept is a Secret that keeps files of the installation's folder: the path of each file by its key in the Secret.
type kept struct {
	name, typ string
	files     map[string]string
}

// kubernetes is the command `kubernetes`: it makes what the other commands make, and keeps it in Secrets.
type kubernetes struct {
	prefix, account string
	keys, certs     bool
}

func kubernetesFlags(f *flag.FlagSet) *kubernetes {
	k := &kubernetes{}
	f.StringVar(&k.prefix, "secrets", "signalbox", "prefix of the names of the Secrets")
	f.StringVar(&k.account, "account", "/var/run/secrets/kubernetes.io/serviceaccount", "folder of the pod's account")
	f.BoolVar(&k.keys, "keys", false, "create the keys")
	f.BoolVar(&k.certs, "certs", false, "create the internal CA and the certificates, and renew those that expire soon")
	return k
}

func (k *kubernetes) keySecret() kept {
	files := map[string]string{}
	for _, name := range []string{"keyring", "audit-key", "blob-key", "database-seed"} {
		files[name] = "secrets/" + name
	}
	return kept{k.prefix + "-keys", typeOpaque, files}
}

func (k *kubernetes) databaseSecret() kept {
	files := map[string]string{}
	for _, service := range Schemas() {
		for _, suffix := range []string{urlSuffix, ownerURLSuffix} {
			files[service+suffix] = "secrets/" + service + suffix
		}
	}
	return kept{k.prefix + "-database", typeOpaque, files}
}

func (k *kubernetes) caSecret() kept {
	return kept{k.prefix + "-ca", typeTLS, map[string]string{"tls.crt": "ca/ca.pem", "tls.key": "ca/ca-key.pem"}}
}

func (k *kubernetes) certSecrets() (all []kept) {
	for _, name := range Identities() {
		all = append(all, kept{k.prefix + "-tls-" + name, typeTLS, map[string]string{
			"tls.crt": "tls/" + name + ".pem", "tls.key": "tls/" + name + "-key.pem", "ca.crt": "tls/ca.pem",
		}})
	}
	return all
}

// run runs the parts of the command. Each part reads its Secrets into the folder, creates the files that are missing, and
// stores those that have changed. What others depend on is stored first, so that the command can be repeated after a
// failure at any point.
func (k *kubernetes) run(ctx context.Context, s Setup, adminFile, database string, getenv func(string) string, out io.Writer) error {
	if !k.keys && !k.certs {
		return errors.New("the command kubernetes needs --keys or --certs")
	}
	if adminFile != "" && !k.keys {
		return errors.New("--admin-url-file needs --keys, because the passwords of the database are derived from a key")
	}
	api, err := openCluster(k.account, getenv)
	if err != nil {
		return err
	}
	store := &secretStore{api: api, dir: s.Dir, out: out, read: map[string]*clusterSecret{}}
	if k.keys {
		// The values that the keyring encrypts, and the passwords of the roles, would be lost with the keys.
		if err := store.renew(ctx, s.Secrets, []kept{k.keySecret()}, k.databaseSecret()); err != nil {
			return err
		}
	}
	if k.certs {
		certs := k.certSecrets()
		if err := store.renew(ctx, s.Certs, append([]kept{k.caSecret()}, certs...), certs[0]); err != nil {
			return err
		}
	}
	if adminFile == "" {
		return nil
	}
	return store.renew(ctx, func() error { return s.Database(ctx, adminFile, database) }, []kept{k.databaseSecret()}, kept{})
}

// secretStore moves files between the folder of a Setup and Secrets.
type secretStore struct {
	api  *cluster
	dir  string
	out  io.Writer
	read map[string]*clusterSecret // by name, those that exist
}

// renew reads the Secrets into the folder, calls the function and stores what has changed. If the first of the Secrets is
// missing but the dependent one exists, the first one was lost: to create another one would make the dependent useless.
func (s *secretStore) renew(ctx context.Context, create func() error, secrets []kept, dependent kept) error {
	for _, one := range secrets {
		if err := s.load(ctx, one); err != nil {
			return err
		}
	}
	if first := secrets[0].name; s.read[first] == nil && dependent.name != "" {
		_, err := s.api.get(ctx, dependent.name)
		if err == nil {
			return fmt.Errorf("the Secret %s is missing, but %s, which depends on it, exists; restore %s from your copy", first, dependent.name, first)
		}
		if !errors.Is(err, errNoSecret) {
			return err
		}
	}
	if err := create(); err != nil {
		return err
	}
	for _, one := range secrets {
		if err := s.save(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// load writes the values of a Secret into files. A Secret that exists must be complete.
func (s *secretStore) load(ctx context.Context, k kept) error {
	found, err := s.api.get(ctx, k.name)
	if errors.Is(err, errNoSecret) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(k.files)) {
		value, ok := found.Data[key]
		if !ok {
			return fmt.Errorf("the Secret %s has no key %s; restore it from your copy", k.name, key)
		}
		if err := pki.WriteFile(filepath.Join(s.dir, filepath.FromSlash(k.files[key])), value); err != nil {
			return err
		}
	}
	s.read[k.name] = found
	return nil
}

// save stores the files of a Secret if it is missing or its values are others.
func (s *secretStore) save(ctx context.Context, k kept) error {
	data := map[string][]byte{}
	before := s.read[k.name]
	same := before != nil
	for key, file := range k.files {
		value, err := os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(file)))
		if err != nil {
			return fmt.Errorf("read what belongs into the Secret %s: %w", k.name, err)
		}
		data[key] = value
		same = same && bytes.Equal(before.Data[key], value)
	}
	switch {
	case same:
		return nil
	case before == nil:
		if err := s.api.create(ctx, k.name, k.typ, data); err != nil {
			return err
		}
		fmt.Fprintf(s.out, "created the Secret %s\n", k.name)
	default:
		if err := s.api.replace(ctx, k.name, before, data); err != nil {
			return err
		}
		fmt.Fprintf(s.out, "changed the Secret %s\n", k.name)
	}
	return nil
}
