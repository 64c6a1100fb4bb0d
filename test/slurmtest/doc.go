// Package slurmtest starts real Slurm clusters for tests: a controller and nodes, each with a host name, processes and a
// file /etc/hosts of its own, on one machine. The files and the network are shared, as the programs of a cluster expect.
// Several clusters may run at once. The programs come from scripts/tools/slurm.sh.
//
// A cluster has the partitions gpu, short, whose jobs may run for ten minutes, and urgent, whose jobs preempt those of the
// others. Its nodes have 16 CPUs, 64,000 MiB of memory and the GPUs of the configuration, all invented. It has no
// slurmdbd: accounts and qualities of service are accepted and ignored.
//
// The folder testdata has the outputs of the commands for jobs in various states, which tests of other packages parse.
// What the tests of this package, and trials with Slurm 22.05, have shown in addition:
//
//   - No command works without a configuration, not even sbatch --version.
//   - While the controller is down, commands fail after 4 seconds, and scontrol show job after 8. scontrol ping fails at
//     once. A controller that is killed may forget what it accepted in its last seconds.
//   - squeue --jobs with one unknown id fails; with several ids it prints those that it knows. scancel of an unknown id
//     succeeds; with --signal it fails.
//   - scancel --signal=TERM --batch reaches only the process of the batch script; without --batch, only the tasks of
//     steps. Slurm also writes a line about it into the output of the job. --signal=TERM@50 of sbatch reaches only steps.
//   - Plain scancel sends SIGTERM, and SIGKILL after KillWait.
//   - A node that is set down ends its jobs at once as NODE_FAIL. The death of a node is noticed after 10 to 16 seconds.
//     ReturnToService=2 would also return a node to service that was set down by hand.
//   - A heterogeneous job is started only by the backfill scheduler, within two seconds if nothing else waits, and may
//     wait long without --time. Its components are the jobs ID+0, ID+1 and so on; each has an id of its own. In a step
//     with --het-group=0,1, SLURM_PROCID, SLURM_NODEID, SLURM_NTASKS and SLURM_NNODES count all components, and
//     SLURM_JOB_ID is that of the first; no variable names the component of the task.
//   - sbatch --export=NONE, and with a list of variables, runs the login shell of the user on the node, which may take
//     seconds, and takes PATH from it. SLURM_CONF and the SLURM_ variables of the job are set in any case.
//   - Too many GPUs, too much memory, and an unknown partition or GRES are refused by sbatch. Too many nodes or too long a
//     time let the job wait for ever, with the reasons PartitionNodeLimit and PartitionTimeLimit.
//   - The reason of a pending job in squeue may contain more than a word, such as "ReqNodeNotAvail, UnavailableNodes:n2".
//     scontrol writes it with underscores instead of spaces.
//   - sbatch --uid starts the job as another user with the group of the caller; --gid is separate.
package slurmtest
