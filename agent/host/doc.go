// Package host is the executor of one machine: it fetches what a work needs,
// builds its Python environment, runs it under a shim, ships its log and, for
// engines, probes them. What an attempt that was killed still had to report is
// reported for it. All it knows lies on disk below one folder, so that an
// agent that was killed takes up every work where it stood: nothing is started
// twice, no exit status and no log line is lost.
package host
