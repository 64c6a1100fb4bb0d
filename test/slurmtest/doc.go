// Package slurmtest starts real Slurm clusters for tests: a controller and nodes, each with a host name, processes and a
// file /etc/hosts of its own, on one machine. The files and the network are shared, as the programs of a cluster expect.
// Several clusters may run at once. The programs come from scripts/tools/slurm.sh.
package slurmtest
