// Package pyenv owns the Python environments. It builds them from requirements with hashes and stores them
// by the digest of the requirements and the version of the interpreter. An environment returned by Ensure
// is complete: it was built in a temporary folder, marked as complete and renamed. Concurrent builders of
// the same environment, even in other processes, share one build. The error of a failed build is the end of
// the installer's output. The caller's Runner runs the steps of a build, inside a boundary.
//
// EnsureLock does the same for locks of users, whose environments belong to one project. Offered describes interpreters
// that the node offers, which the package does not change.
package pyenv
