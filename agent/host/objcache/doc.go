// Package objcache owns the node's cache of objects, stored by their SHA-256. A file in the cache matched
// its digest when it was stored: the bytes are hashed while they are written to a temporary file, which is
// then renamed. Attempts receive copies that they may change. Engines receive links to the cached files,
// which they must not change. The bytes are verified again during each copy and before each link.
package objcache
