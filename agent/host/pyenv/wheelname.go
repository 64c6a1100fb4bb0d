package pyenv

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// checkWheel returns an error if the name of a wheel differs from the metadata in the wheel. The hash of a wheel does
// not cover its name, and installers choose wheels by name. Without this check, a build could cache a wheel under
// another name and make builds for another platform install it. checkWheel reads at most the given number of bytes.
func checkWheel(path string, most int) error {
	parts := strings.Split(strings.TrimSuffix(filepath.Base(path), ".whl"), "-")
	if len(parts) != 5 && len(parts) != 6 {
		return errors.New("the file name is not a valid name of a wheel")
	}
	opened, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the wheel: %w", err)
	}
	defer func() { _ = opened.Close() }()
	size, err := opened.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("measure the wheel: %w", err)
	}
	archive, err := zip.NewReader(&bounded{opened, most}, size)
	if err != nil {
		return fmt.Errorf("open the wheel: %w", err)
	}
	info, err := infoOf(archive, parts[0]+"-"+parts[1])
	if err != nil {
		return err
	}
	declared, err := tagsIn(info)
	if err != nil {
		return err
	}
	if named := tagsOf(parts[len(parts)-3:]); !slices.Equal(named, declared) {
		return fmt.Errorf("the metadata of the wheel is for %v, but its name is for %v", declared, named)
	}
	return nil
}

// infoOf returns the file WHEEL of a wheel, or an error unless it belongs to the package and version in the given name.
func infoOf(archive *zip.Reader, name string) (info *zip.File, err error) {
	for _, f := range archive.File {
		dir, file, _ := strings.Cut(f.Name, "/")
		if file != "WHEEL" || !strings.HasSuffix(dir, ".dist-info") {
			continue
		}
		if info != nil || normal(strings.TrimSuffix(dir, ".dist-info")) != normal(name) {
			return nil, errors.New("the name and the metadata of the wheel state different packages or versions")
		}
		info = f
	}
	if info == nil {
		return nil, errors.New("the wheel has no metadata")
	}
	return info, nil
}

// maxDirectory is the maximum number of bytes that the agent reads of a wheel to check its name. A hostile wheel can
// consist of nothing but file names, which would all be in the agent's memory.
const maxDirectory = 64 << 20

// bounded is a file with a limit for the bytes that are read. The field left is how many more may be read.
type bounded struct {
	file io.ReaderAt
	left int
}

// ReadAt implements io.ReaderAt.
func (b *bounded) ReadAt(p []byte, offset int64) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("the wheel's list of files is too large")
	}
	return b.file.ReadAt(p, offset)
}

// normal returns the normalized name of a package, which is equal for all its spellings.
func normal(name string) string {
	return regexp.MustCompile(`[-_.]+`).ReplaceAllString(strings.ToLower(name), "-")
}

// tagsOf returns the tags that the last three parts of a wheel's name stand for, in sorted order.
func tagsOf(parts []string) []string {
	tags := []string{""}
	for i, part := range parts {
		var longer []string
		for _, tag := range tags {
			for value := range strings.SplitSeq(part, ".") {
				if i > 0 {
					value = tag + "-" + value
				}
				longer = append(longer, value)
			}
		}
		tags = longer
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}

// tagsIn returns the tags in a wheel's metadata, in sorted order.
func tagsIn(file *zip.File) ([]string, error) {
	opened, err := file.Open()
	if err != nil {
		return nil, fmt.Errorf("read the wheel's metadata: %w", err)
	}
	defer func() { _ = opened.Close() }()
	const most = 1 << 20
	text, err := io.ReadAll(io.LimitReader(opened, most))
	if err != nil {
		return nil, fmt.Errorf("read the wheel's metadata: %w", err)
	}
	var tags []string
	for line := range strings.Lines(string(text)) {
		if tag, ok := strings.CutPrefix(strings.TrimSpace(line), "Tag:"); ok {
			tags = append(tags, strings.TrimSpace(tag))
		}
	}
	slices.Sort(tags)
	return slices.Compact(tags), nil
}
