package dataset

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
)

const (
	// Files of at most smallFile bytes are packed if a version has at least fewestPacked of them.
	smallFile    = 256 << 10
	fewestPacked = 32
	// deepest is the maximum number of folders above a packed file. Agents refuse to unpack files in deeper folders.
	deepest = 31
	// packBytes is the maximum size of a pack. fileBytes is the maximum number of bytes by which a file in a tar file
	// exceeds its content and its path.
	packBytes = 8 << 20
	fileBytes = 4 << 10
	// packsAtOnce is the number of packs that are built at a time. It is small because each pack is in memory twice.
	packsAtOnce = 2
	// readsAtOnce is the number of files of a pack that are read at a time.
	readsAtOnce = 32
	// packWithin is the time after which no further pack is begun. The request then has time left to look up the
	// remaining files, so that a slow store does not prevent a commit.
	packWithin = 20 * time.Second
)

// Pack is a tar file with small files of a version. Jobs download the pack instead of these files.
type Pack struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// key returns the object key of a pack. No manifest can refer to this key.
func (p Pack) key(d *Dataset) string {
	return "projects/" + d.ProjectID + "/packs/" + d.ID + "/" + p.SHA256
}

// Packer writes the small files of versions into packs.
type Packer struct {
	pool    *pgxpool.Pool
	blobs   blob.Store
	clock   clock.Clock
	bytes   int64
	holdFor time.Duration
	slots   chan struct{}
}

// NewPacker returns a Packer. maxBytes is the maximum size of an object. holdFor is how long a new pack is kept before
// a version refers to it.
func NewPacker(pool *pgxpool.Pool, blobs blob.Store, clk clock.Clock, maxBytes int64, holdFor time.Duration) *Packer {
	return &Packer{
		pool: pool, blobs: blobs, clock: clk, bytes: min(packBytes, maxBytes), holdFor: holdFor, slots: make(chan struct{}, packsAtOnce),
	}
}

// Pack builds packs of the small files in v.Alone, which LoadInputs must have set. It adds the packs to v.Packs and
// removes their files from v.Alone. It reads the packed files, so it returns an error if a file is missing or does not
// match the manifest. Files that are not packed within packWithin remain in v.Alone.
func (p *Packer) Pack(ctx context.Context, d *Dataset, v *Version) error {
	groups, alone := grouped(v.Alone, p.bytes)
	packs := make([]*Pack, len(groups))
	end := p.clock.Now().Add(packWithin)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(packsAtOnce)
	for i, files := range groups {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() (err error) {
			packs[i], err = p.build(ctx, d, v, files, end)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("pack the small files of a dataset: %w", err)
	}
	for i, files := range groups {
		if packs[i] == nil {
			alone = append(alone, files...)
			continue
		}
		v.Packs = append(v.Packs, *packs[i])
	}
	slices.SortFunc(alone, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	v.Alone = alone
	return nil
}

// grouped divides the small files into groups, one for each pack of at most limit bytes. It returns the other files as
// alone. A group ends at its maximum size or after a file that is chosen by its digest. Two versions that differ in few
// files therefore share most of their packs, and an agent downloads only the packs that it does not have.
func grouped(files []File, limit int64) (groups [][]File, alone []File) {
	var small []File
	for _, f := range files {
		if f.Size <= min(smallFile, limit/2) && len(f.Path) <= fileBytes && strings.Count(f.Path, "/") <= deepest {
			small = append(small, f)
		} else {
			alone = append(alone, f)
		}
	}
	if len(small) < fewestPacked {
		return nil, slices.Clone(files)
	}
	var size int64
	from := 0
	for i, f := range small {
		if size+packedSize(f) > limit {
			groups, from, size = append(groups, small[from:i]), i, 0
		}
		if size += packedSize(f); size >= limit/4 && endsPack(f, limit) {
			groups, from, size = append(groups, small[from:i+1]), i+1, 0
		}
	}
	if from < len(small) {
		groups = append(groups, small[from:])
	}
	return groups, alone
}

// packedSize returns an upper bound of the bytes that the file occupies in a pack.
func packedSize(f File) int64 { return f.Size + int64(len(f.Path)) + fileBytes }

// endsPack reports whether a pack may end after the file. On average, such a file occurs once in limit/2 bytes.
func endsPack(f File, limit int64) bool {
	const digits, all = 8, 1 << 32
	draw, err := strconv.ParseUint(f.SHA256[:min(digits, len(f.SHA256))], 16, 32)
	return err == nil && int64(draw) < packedSize(f)*all/(limit/2)
}

// build stores the pack of the files. It returns nil if its turn comes after end, and an error if a file does not match
// the manifest.
func (p *Packer) build(ctx context.Context, d *Dataset, v *Version, files []File, end time.Time) (*Pack, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.clock.Now().After(end) {
		return nil, nil
	}
	contents, err := p.read(ctx, d, v, files)
	if err != nil {
		return nil, err
	}
	raw, err := tarOf(files, contents)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	pack := &Pack{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(raw))}
	// An earlier commit that failed may have left the same pack. The hold keeps the sweep from deleting it.
	if err := db.HoldObjects(ctx, p.pool, p.holdFor, pack.key(d)); err != nil {
		return nil, err
	}
	return pack, p.blobs.Put(ctx, pack.key(d), bytes.NewReader(raw), pack.Size, pack.SHA256)
}

// read returns the verified bytes of the files.
func (p *Packer) read(ctx context.Context, d *Dataset, v *Version, files []File) ([][]byte, error) {
	contents := make([][]byte, len(files))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for i, f := range files {
		group.Go(func() error {
			body, err := p.blobs.OpenKnown(ctx, blob.Info{Key: v.key(d, f.SHA256), Size: f.Size, SHA256: f.SHA256})
			if err != nil {
				return err
			}
			defer func() { _ = body.Close() }()
			contents[i] = make([]byte, f.Size)
			if _, err := io.ReadFull(body, contents[i]); err != nil {
				return err
			}
			// ReadFull reads nothing if the expected size is 0. Reading to the end detects an object with more bytes.
			_, err = io.Copy(io.Discard, body)
			return err
		})
	}
	return contents, group.Wait()
}

// tarOf returns a tar file. The same files always result in the same bytes.
func tarOf(files []File, contents [][]byte) ([]byte, error) {
	var out bytes.Buffer
	size := int64(0)
	for _, f := range files {
		size += packedSize(f)
	}
	out.Grow(int(size))
	w := tar.NewWriter(&out)
	for i, f := range files {
		const mode = 0o644
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Size: f.Size, Mode: mode}); err != nil {
			return nil, fmt.Errorf("pack file %s: %w", f.Path, err)
		}
		if _, err := w.Write(contents[i]); err != nil {
			return nil, fmt.Errorf("pack file %s: %w", f.Path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("end a pack: %w", err)
	}
	return out.Bytes(), nil
}
