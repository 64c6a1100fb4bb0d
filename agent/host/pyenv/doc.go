// Package pyenv owns the Python environments. It builds them from hash-pinned
// requirements and keeps them by digest and interpreter. It promises that an environment
// returned by Ensure is complete: it is built under another name, marked and renamed.
// Builders of the same environment, in this process or another, share one build. The error
// of a failed build is the end of the installer's output.
package pyenv
