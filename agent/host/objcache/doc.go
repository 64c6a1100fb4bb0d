// Package objcache owns the node's cache of objects, stored by their SHA-256. A file in the cache matched
// its digest when it was stored: the bytes are hashed while they are written to a temporary file, which is
// then renamed. Works receive copies that they may change. The bytes are verified again while they are
// copied.
package objcache
