package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/signalbox-dev/signalbox/platform/archive"
)

const (
	// Listing is the name of the file that lists the files of an unpacked folder.
	Listing = ".signalbox-model.json"
	// maxListing bounds the listing that is read, in bytes.
	maxListing = 64 << 20
	// unpackedName is the folder in a stage in which a tar file is unpacked.
	unpackedName = "files"
)

// listing is the content of the file Listing.
type listing struct {
	// SHA256 is that of the tar file.
	SHA256 string       `json:"sha256"`
	Files  []listedFile `json:"files"`
}

type listedFile struct {
	Path   string `json:"path"`
	Size   int64  `json:"size_bytes"`
	SHA256 string `json:"sha256"`
}

// Unpacked returns the files of a tar file that were unpacked into a folder, if the folder still has all of them with the right
// digests.
func Unpacked(root *os.Root, tarSHA256 string) (files []File, ok bool) {
	f, err := root.Open(Listing)
	if err != nil {
		return nil, false
	}
	defer func() { _ = f.Close() }()
	var l listing
	if err := json.NewDecoder(io.LimitReader(f, maxListing)).Decode(&l); err != nil || l.SHA256 != tarSHA256 {
		return nil, false
	}
	for _, one := range l.Files {
		file := File{Path: one.Path, Size: one.Size, SHA256: one.SHA256}
		if !Exists(root, file) {
			return nil, false
		}
		files = append(files, file)
	}
	return files, true
}

// Stage is a hidden folder in the folder of a download, on the same file system, in which a tar file is downloaded and unpacked. It
// stays if the download fails, so that the next one continues.
type Stage struct {
	Root *os.Root

	name string
	into *os.Root
}

// NewStage opens the stage for the tar file with a digest, and creates it if it is missing.
func NewStage(into *os.Root, tarSHA256 string) (*Stage, error) {
	const length = 16
	name := ".signalbox-" + tarSHA256[:min(len(tarSHA256), length)]
	if err := into.MkdirAll(name, 0o755); err != nil {
		return nil, fmt.Errorf("create the folder of a download: %w", err)
	}
	root, err := into.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("open the folder of a download: %w", err)
	}
	return &Stage{Root: root, name: name, into: into}, nil
}

// Close closes the stage, and removes it if it is empty.
func (s *Stage) Close() {
	_ = s.Root.Close()
	_ = s.into.Remove(s.name)
}

// Unpack unpacks the tar file, which is complete in the stage, moves its files into the folder of the download, and removes the
// stage. Files with the same names are replaced. Count receives the number of bytes of the tar file that were read. Empty folders are
// not kept. It returns archive.ErrUnpack for a tar file that has links, paths outside or too many entries; no file appears in the
// folder then.
func (s *Stage) Unpack(ctx context.Context, packed File, count func(have int64)) ([]File, error) {
	in, err := s.Root.Open(local(packed))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", packed.Path, err)
	}
	defer func() { _ = in.Close() }()
	if err := syscall.Flock(int(in.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", packed.Path, ErrBusy)
		}
		return nil, fmt.Errorf("lock %s: %w", packed.Path, err)
	}
	// An earlier command may have unpacked a part.
	if err := s.Root.RemoveAll(unpackedName); err != nil {
		return nil, fmt.Errorf("remove what was unpacked before: %w", err)
	}
	modes := archive.Modes{File: 0o644, Program: 0o755, Folder: 0o755, Umask: true}
	err = archive.Unpack(NewReader(Until(ctx, in), count), filepath.Join(s.into.Name(), s.name, unpackedName), packed.Size, modes)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unpack %s: %w", packed.Path, err), s.discard(ctx, err))
	}
	l := listing{SHA256: packed.SHA256}
	if l.Files, err = s.list(ctx); err != nil {
		return nil, fmt.Errorf("read what was unpacked: %w", err)
	}
	return s.move(l)
}

// discard removes what was unpacked before an error, and the tar file too if a repeat would end in the same way.
func (s *Stage) discard(ctx context.Context, err error) error {
	name := filepath.Join(s.name, unpackedName)
	if errors.Is(err, archive.ErrUnpack) && ctx.Err() == nil {
		name = s.name
	}
	return s.into.RemoveAll(name)
}

// list returns the unpacked files with their digests, without the listing of an earlier download.
func (s *Stage) list(ctx context.Context) (out []listedFile, err error) {
	top, err := s.Root.OpenRoot(unpackedName)
	if err != nil {
		return nil, err
	}
	defer func() { _ = top.Close() }()
	err = fs.WalkDir(top.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path == Listing {
			return err
		}
		f, err := top.Open(filepath.FromSlash(path))
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		h := sha256.New()
		size, err := io.Copy(h, Until(ctx, f))
		out = append(out, listedFile{Path: path, Size: size, SHA256: hex.EncodeToString(h.Sum(nil))})
		return err
	})
	return out, err
}

// move moves the unpacked files into the folder of the download, writes the listing and removes the stage.
func (s *Stage) move(l listing) (files []File, err error) {
	for _, one := range l.Files {
		f := File{Path: one.Path, Size: one.Size, SHA256: one.SHA256}
		if dir := filepath.Dir(local(f)); dir != "." {
			if err := s.into.MkdirAll(dir, 0o755); err != nil {
				return nil, fmt.Errorf("create the folder of %s: %w", f.Path, err)
			}
		}
		if err := s.into.Rename(filepath.Join(s.name, unpackedName, local(f)), local(f)); err != nil {
			return nil, fmt.Errorf("name %s: %w", f.Path, err)
		}
		files = append(files, f)
	}
	raw, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the listing: %w", err)
	}
	written := filepath.Join(s.name, Listing)
	if err := errors.Join(s.into.WriteFile(written, append(raw, '\n'), 0o644), s.into.Rename(written, Listing)); err != nil {
		return nil, fmt.Errorf("write the listing: %w", err)
	}
	if err := s.into.RemoveAll(s.name); err != nil {
		return nil, fmt.Errorf("remove the tar file: %w", err)
	}
	return files, nil
}
