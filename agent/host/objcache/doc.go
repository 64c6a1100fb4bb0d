// Package objcache owns the node's cache of objects, stored by their SHA-256. It promises
// that a file named by a digest had that digest when it was stored: bytes are hashed while
// they are written under another name. Works get copies that they may change, and the bytes
// are verified again while they are copied.
package objcache
