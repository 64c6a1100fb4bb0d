// Package httprelay reads and writes HTTP/1.1 messages for proxies that relay most of them unchanged. It parses only heads
// of the plain form that almost all programs send, and is strict: a head that two parsers might read differently is not
// plain. Package net/http reads all others, so that what is refused, and how, is decided in one place.
package httprelay
