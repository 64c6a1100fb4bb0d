package waysout

// way is a way by which the code of a work may escape: it reaches something that a work must not reach, or exceeds a
// limit.
type way struct {
	name string
	// root and user are the expected results with isolated works, if the agent runs as root and as an ordinary user.
	root, user string
	// always is true for a way that the limits of the job or the shim may close even if works are not isolated. Only a
	// process without a shim and limits can show that such a way is open.
	always bool
	// reason may be set only if always is. It states why a plain process may find the way closed, or why a plain
	// process has no such way.
	reason string
	// device is true for a way to a device or another host that the test creates. Only a test that runs as root can
	// create them.
	device bool
}

// These are the possible results of a way.
const (
	openWay   = "open"
	closedWay = "closed"
)

// ways returns the table. Outside of itself, every work may reach only the public listener.
func ways() []way {
	table := []way{{name: "public listener", root: openWay, user: openWay}, {name: "memory of several processes", root: closedWay, user: openWay, always: true}}
	for _, name := range []string{"anonymous shared memory", "file in memory", "memory of sockets"} {
		table = append(table, way{name: name, root: closedWay, user: openWay, always: true})
	}
	table = append(table, deviceWays()...)
	for _, name := range []string{"disk space", "inodes"} {
		table = append(table, way{name: name, root: closedWay, user: closedWay, always: true})
	}
	for _, name := range []string{
		"file of another work",
		"list of another work's files",
		"reports of another work",
		"token of another work",
		"log of another work",
		"start file of another work",
		"environment of another work",
		"command line of another work",
		"memory of another work",
		"files through another work's process",
		"shared memory file of another work",
		"shared memory segment of another work",
		"socket of another work",
		"abstract socket of another work",
		"port of another work on loopback",
		"port of another work on the node's address",
		"datagram to another work",
		"multicast to the node",
		"broadcast to the node",
		"signal to another work",
		"ptrace of another work",
		"own token on the node",
		"change of its own start file",
		"change of its own outcome",
		"key of the node",
		"hard link to the node's key",
		"symbolic link to the node's key",
		"list of the agent's files",
		"keyring",
		"key of the CA",
		"key of the audit log",
		"heads of the audit log",
		"key of signed URLs",
		"password of the database",
		"files of the database",
		"port of the database",
		"memory of the control plane",
		"environment of the control plane",
		"open files of the control plane",
		"signal to the control plane",
		"signal to the shim",
		"ptrace of the shim",
		"port for agents",
		"port of a service on loopback",
		"port of a service on the node's address",
		"port of Redis",
		"admin port",
		"engine on the node",
		"key of an engine",
		"Unix socket under /tmp",
		"new environment",
		"listener at the public port",
		"listener at the public port over IPv6",
		"listener at the port of the database",
		"listener at a port for engines",
		"Unix socket under /run",
		"change of a cached object",
		"removal of a cached object",
		"mode of a cached object",
		"new file among the cached objects",
		"change of its Python environment",
		"change of the reporter",
		"home of root",
		"list of the machine's users",
		"shadow file",
		"log of the kernel",
		"settings of the kernel",
		"new device",
		"network device",
		"user namespace",
		"user namespace of a child",
		"mount namespace",
		"another root",
		"another user",
		"owner of a file",
		"another cgroup",
		"file by its handle",
		"keys of the session",
		"programs in the kernel",
		"packets of its own making",
		"protocol that no filter sees",
		"ptrace of its own child",
		"log beyond its size",
		"log beyond its rate",
	} {
		table = append(table, way{name: name, root: closedWay, user: closedWay})
	}
	for _, name := range []string{
		"scheduling before all others",
		"file descriptors of several processes",
		"memory of one process",
		"processes and threads",
		"shared memory",
		"outlive the stop: ignored signals",
		"outlive the stop: second fork",
		"outlive the stop: session of its own",
		"outlive the stop: another cgroup",
		"outlive the stop: changed environment",
	} {
		table = append(table, way{name: name, root: closedWay, user: closedWay, always: true})
	}
	for _, name := range sdistWays() {
		table = append(table, way{name: inSdist + name, root: closedWay, user: closedWay})
	}
	return append(append(table, closedWays()...), reasonedWays()...)
}

// deviceWays returns the ways to GPUs and to another device. A work may reach only the GPUs that it was given.
func deviceWays() []way {
	table := []way{{name: "GPU that was given", root: openWay, user: openWay, device: true}}
	for _, name := range []string{"GPU of another work", "GPU of no work", "GPU without a request", "device that was not given"} {
		table = append(table, way{name: name, root: closedWay, user: closedWay, device: true})
	}
	return table
}

// reasonedWays returns the ways that no test can show to be open, each with the reason.
func reasonedWays() []way {
	const (
		files = "the reporter opens only regular files of the spool, wherever it runs"
		code  = "the flush runs the agent's reporter in a folder of the system, wherever it runs"
	)
	table := []way{
		{name: "ciphers of the kernel", reason: "many kernels, such as those of virtual machines, are built without them"},
		{name: "file descriptors", reason: "the machine may have a lower limit for each process, which even root may be unable to raise"},
	}
	for _, name := range []string{"symbolic link", "hard link", "folder of another", "path to the parent", "device", "named pipe", "huge file"} {
		table = append(table, way{name: "flush: " + name, reason: files})
	}
	table = append(table, way{name: "flush: code of its own", reason: code})
	for n := range table {
		table[n].root, table[n].user, table[n].always = closedWay, closedWay, true
	}
	return table
}
