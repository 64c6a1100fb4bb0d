// Package objects keeps the objects that works need, by their SHA-256. It
// promises that what lies under a digest's name has that digest: bytes are
// hashed while they stream into another name. What a work may write to is a
// copy, checked once more on the way.
package objects
