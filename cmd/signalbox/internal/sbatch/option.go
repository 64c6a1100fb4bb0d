package sbatch

import "strings"

// option is an option of sbatch.
type option struct {
	short, long string
	// value is '=' if the option needs a value, '?' if it can have one, and '-' if it has none.
	value byte
	// remedy is what to do in place of an option that has no meaning here; empty if the option has one.
	remedy string
}

// optionTable has a line for each option of sbatch: its short name, its long name, whether it has a value, and the
// remedy if it has no meaning here.
const optionTable = `
N nodes =
n ntasks =
- ntasks-per-node =
- tasks-per-node =
c cpus-per-task =
- cpus-per-gpu =
G gpus =
- gpus-per-node =
- gpus-per-task =
- gres =
- mem =
- mem-per-cpu =
- mem-per-gpu =
t time =
J job-name =
o output =
e error =
p partition =
- comment =
- requeue -
- no-requeue -
- mail-type =
- export =
- mail-user = remove the line; signalbox jobs wait reports the end of a job
A account = remove the line and choose the project with --project
q qos = remove the line; the project and the owner decide the quota
a array = submit the script once for each index, and give the index with --env-file
d dependency = remove the line and wait for the other job with signalbox jobs wait before you submit this one
- exclusive ? remove the line and request all GPUs of the node with --gpus
s oversubscribe - remove the line; GPUs of a job are never shared
O overcommit - remove the line
C constraint = remove the line and choose a pool with such nodes with --pool
- prefer = remove the line and choose a pool with such nodes with --pool
- cluster-constraint = remove the line and choose a pool with --pool
M clusters = remove the line and choose the installation with --server
w nodelist = remove the line and choose a pool with --pool; nodes cannot be chosen by name
F nodefile = remove the line and choose a pool with --pool; nodes cannot be chosen by name
x exclude = remove the line and choose a pool with --pool; nodes cannot be excluded by name
- reservation = remove the line and choose a pool with --pool
L licenses = remove the line
- wckey = remove the line
- mcs-label = remove the line
D chdir = remove the line; the script runs in the submitted folder, in which it can use cd
- signal = remove the line; save checkpoints while the training runs
- open-mode = remove the line; the log contains all attempts
b begin = remove the line and submit the job when it may start
H hold - remove the line and submit the job when it may start
- deadline = remove the line and limit the run with --time
- time-min = remove the line and limit the run with --time
- delay-boot = remove the line
i input = remove the line and redirect the input in the script
- export-file = give the variables with --env-file
- get-user-env ? give the variables with --env-file
- propagate ? remove the line; the pool decides the limits of processes
- nice ? remove the line
- priority = remove the line
- ntasks-per-core = remove the line and request CPUs with --cpus-per-task
- ntasks-per-socket = remove the line and request CPUs with --cpus-per-task
- ntasks-per-gpu = remove the line and state --ntasks-per-node
- gpus-per-socket = state the number with --gpus-per-node
- gpu-bind = remove the line; each process chooses its GPU by LOCAL_RANK
- gpu-freq = remove the line
- cpu-freq = remove the line
- tres-per-task = state --gpus-per-task and --cpus-per-task
- tres-bind = remove the line; each process chooses its GPU by LOCAL_RANK
- gres-flags = remove the line
- mem-bind = remove the line
- hint = remove the line
B extra-node-info = remove the line
- sockets-per-node = remove the line
- cores-per-socket = remove the line
- threads-per-core = remove the line
S core-spec = remove the line
- thread-spec = remove the line
m distribution = remove the line
- mincpus = request CPUs with --cpus-per-task
- contiguous - remove the line
- spread-job - remove the line
- use-min-nodes - remove the line
- switches = remove the line
- network = remove the line
- power = remove the line
- profile = remove the line; signalbox metrics shows the use of the GPUs
- acctg-freq = remove the line
- tmp = remove the line
- bb = remove the line and bind datasets
- bbf = remove the line and bind datasets
- container = remove the line and choose the environment with --python or --requirements
- container-id = remove the line and choose the environment with --python or --requirements
- container-image = remove the line and choose the environment with --python or --requirements
- container-mounts = remove the line; the submitted folder and bound datasets are the files of a job
- container-workdir = remove the line; the script runs in the submitted folder
- container-name = remove the line and choose the environment with --python or --requirements
- no-container-mount-home - remove the line
k no-kill ? remove the line; all nodes of a job run together
K kill-on-bad-exit ? remove the line; all nodes of a job end together
- kill-on-invalid-dep = remove the line
I immediate ? remove the line
- reboot - remove the line
- ignore-pbs - remove the line
- uid = remove the line
- gid = remove the line
- extra = remove the line
- resv-ports ? remove the line
- stepmgr - remove the line
- segment = remove the line
- consolidate-segments - remove the line
- jobid = remove the line
W wait - remove the line; signalbox run waits for the end of the job
- wait-all-nodes = remove the line; all nodes of a job start together
- wrap = write the command into the script
- parsable - remove the line and use -o json on the command line
- test-only - remove the line and use signalbox jobs submit --dry-run
Q quiet - remove the line and use it on the command line
v verbose - remove the line and use it on the command line
- autocomplete = remove the line
V version - remove the line
h help - remove the line
u usage - remove the line
`

// options returns the options of sbatch.
func options() []option {
	rows := strings.Split(strings.TrimSpace(optionTable), "\n")
	out := make([]option, 0, len(rows))
	for _, row := range rows {
		short, rest, _ := strings.Cut(row, " ")
		long, rest, _ := strings.Cut(rest, " ")
		value, remedy, _ := strings.Cut(rest, " ")
		if short == "-" {
			short = ""
		}
		out = append(out, option{short: short, long: long, value: value[0], remedy: remedy})
	}
	return out
}
