package archive

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// Extract returns the content of a file in an archive that Inspect has accepted, at most the given number of bytes of it.
// The result found is false if the archive has no such file. The parameter packed is the size of the archive in bytes.
func Extract(r io.Reader, packed int64, name string, most int64) (content []byte, found bool, err error) {
	const accepted = math.MaxInt64 / 2 // Inspect has checked the limit
	w := &walk{limit: accepted}
	plain, err := w.open(bufio.NewReader(r), packed)
	if err != nil {
		return nil, false, err
	}
	for in := tar.NewReader(plain); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, w.classify(err)
		}
		if h.Typeflag != tar.TypeReg || strings.TrimPrefix(h.Name, "./") != name {
			continue
		}
		if content, err = io.ReadAll(io.LimitReader(in, most)); err != nil {
			return nil, false, fmt.Errorf("read a file of an archive: %w", w.classify(err))
		}
		return content, true, nil
	}
}
