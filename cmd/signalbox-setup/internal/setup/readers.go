package setup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// The readers that several services have in common: all services, the services that decrypt sealed values, and the
// services that sign audit entries.
const (
	everyone = ""
	keyring  = "keyring"
	auditors = "audit"
)

const (
	sharedFile   fs.FileMode = 0o640
	sharedFolder fs.FileMode = 0o750
)

// Readers are the group IDs of an installation, by reader: GROUP for everyone, GROUP-<service>, GROUP-keyring
// and GROUP-audit. A process is only in the groups that it needs, so that an attacker who controls one service
// cannot read the keys of another.
type Readers struct{ gids map[string]int }

// LookupReaders finds the groups in the machine's group database or, if a root folder is given, in its etc/group. If
// groups are missing, the error names all of them.
func LookupReaders(root, group string) (*Readers, error) {
	lookup := func(name string) (int, error) {
		g, err := user.LookupGroup(name)
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(g.Gid)
	}
	if root != "" {
		known, err := groupsOf(filepath.Join(root, "etc", "group"))
		if err != nil {
			return nil, fmt.Errorf("read the groups: %w", err)
		}
		lookup = func(name string) (int, error) {
			gid, ok := known[name]
			if !ok {
				return 0, user.UnknownGroupError(name)
			}
			return gid, nil
		}
	}
	r := &Readers{gids: map[string]int{}}
	var missing []string
	for _, reader := range append(Identities(), everyone, keyring, auditors) {
		name := group
		if reader != everyone {
			name += "-" + reader
		}
		gid, err := lookup(name)
		if _, unknown := errors.AsType[user.UnknownGroupError](err); unknown {
			missing = append(missing, name)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look up the group %s: %w", name, err)
		}
		r.gids[reader] = gid
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("missing groups: %s; systemd-sysusers creates them from deploy/sysusers.d/signalbox.conf", strings.Join(missing, ", "))
	}
	return r, nil
}

// groupsOf reads a group file and returns group IDs by name.
func groupsOf(path string) (map[string]int, error) {
	f, err := os.Open(path) // #nosec G304 -- the operator's own argument
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	known := map[string]int{}
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		fields := strings.Split(scan.Text(), ":")
		if len(fields) < 3 {
			continue
		}
		if gid, err := strconv.Atoi(fields[2]); err == nil {
			known[fields[0]] = gid
		}
	}
	return known, scan.Err()
}

// readerOf maps each file and folder of an installation to the reader that may read it. The seed of the database
// passwords is not listed, because only root may read it.
func readerOf() map[string]string {
	of := map[string]string{
		"ca/ca.pem": "jobs", "ca/ca-key.pem": "jobs", "ca": "jobs",
		"tls/ca.pem": everyone, "tls": everyone,
		"secrets/keyring": keyring, "secrets/audit-key": auditors, "secrets/blob-key": everyone, "secrets": everyone,
	}
	for _, name := range Identities() {
		of["tls/"+name+".pem"], of["tls/"+name+"-key.pem"] = name, name
	}
	for _, name := range Schemas() {
		of["secrets/"+name+urlSuffix], of["secrets/"+name+ownerURLSuffix] = name, name
	}
	return of
}

// share lets each reader read its files. The owner of the files does not change, so no service can change its own key.
func (s Setup) share() error {
	if s.Readers == nil {
		return nil
	}
	for name, reader := range readerOf() {
		if err := give(s.in(filepath.FromSlash(name)), s.Readers.gids[reader]); err != nil {
			return err
		}
	}
	// Do not change a folder that everyone may enter: it may belong to the system.
	if info, err := os.Stat(s.Dir); err != nil || info.Mode().Perm()&0o001 != 0 {
		return err
	}
	return give(s.Dir, s.Readers.gids[everyone])
}

// give sets the group of a file or folder, and then lets the group read it. In the opposite order, the old group could
// read it for a moment.
func give(path string, gid int) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stat %s: %w", path, err)
	}
	mode := sharedFile
	switch {
	case info.IsDir():
		mode = sharedFolder
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	}
	if err := os.Lchown(path, -1, gid); err != nil {
		return fmt.Errorf("change the group of %s (requires root): %w", path, err)
	}
	if err := os.Chmod(path, mode); err != nil {
		return fmt.Errorf("change the mode of %s: %w", path, err)
	}
	return nil
}

// agree refuses to write owner-only files if services already read the files through a group. The services could not
// start again with owner-only files.
func (s Setup) agree() error {
	if s.Readers != nil {
		return nil
	}
	for _, folder := range []string{s.in("tls"), s.in("secrets")} {
		info, err := os.Stat(folder)
		if err == nil && info.Mode().Perm()&0o070 != 0 {
			return fmt.Errorf("%s is readable by a group; pass the group with --group", folder)
		}
	}
	return nil
}
