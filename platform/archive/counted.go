package archive

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// overhead is what headers and padding may add to the bytes of the files.
const overhead = 256 << 20

// counted reads unpacked bytes up to a bound, and refuses what grows too much on the way.
type counted struct {
	from io.Reader
	most int64
	// packed is how many bytes these come from; 0 where nothing was packed.
	packed int64
	n      int64
	// broken is an error that is not the archive's own fault.
	broken error
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	switch {
	case c.n > c.most:
		return 0, tooLarge(c.most - overhead)
	case c.packed > 0 && c.n > freeBytes && c.n/maxRatio > c.packed:
		return 0, fault.New(fault.TooLarge, GatePackage, GatePackage+": it unpacks to more than %d times its size", maxRatio)
	case err != nil && !errors.Is(err, io.EOF) && !own(err):
		c.broken = err
	}
	return n, err
}

// own says whether an error tells of bytes that are no gzip.
func own(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.As(err, &corrupt) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF)
}
