// Package environment makes Python environments from hash-pinned requirements
// and keeps them by digest and interpreter. It promises that a folder which
// Ensure answers is complete: it was built under another name, marked, and
// renamed; builders of the same environment, in this process or another, share
// one build; and a failed build carries the installer's own last words.
package environment
