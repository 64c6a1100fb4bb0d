package archive

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// overhead is the number of bytes that an unpacked archive may have besides the files: headers, padding and data after
// the end of the tar.
const overhead = 256 << 20

// counted is a reader of unpacked bytes. It fails if it has read more bytes than the field most allows, or if the
// compression ratio exceeds maxRatio.
type counted struct {
	from   io.Reader
	most   int64
	packed int64 // size of the gzip stream; 0 if the archive is not compressed
	n      int64
	broken error // an error of the underlying reader, as opposed to one in the archive
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	switch {
	case c.n > c.most:
		return 0, tooLarge(c.most - overhead)
	case c.packed > 0 && c.n > freeBytes && c.n/maxRatio > c.packed:
		return 0, fault.New(fault.TooLarge, GatePackage, GatePackage+": the package unpacks to more than %d times its size", maxRatio)
	case err != nil && !errors.Is(err, io.EOF) && !malformed(err):
		c.broken = err
	}
	return n, err
}

// malformed reports whether err means that the bytes are not valid gzip.
func malformed(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.As(err, &corrupt) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF)
}
