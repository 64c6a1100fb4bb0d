// Package soak tests that nothing grows for ever: every table has an age at which its rows are deleted, or a reason
// why it needs none, and an installation that runs for a long time under an even load stops growing.
package soak
