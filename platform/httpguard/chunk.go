package httpguard

import "github.com/signalbox-dev/signalbox/platform/httprelay"

// advance consumes the bytes of a chunked body at the beginning of b and returns their number. The result done is true at
// the end of the body. The result ok is false if the body is malformed.
func advance(c *httprelay.Chunks, b []byte) (n int, done, ok bool) {
	for n < len(b) {
		_, read, done, ok := c.Next(b[n:])
		if n += read; done || !ok {
			return n, done, ok
		}
	}
	return n, false, true
}
