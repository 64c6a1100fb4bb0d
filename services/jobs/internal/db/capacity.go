package db

// TakesRoom is the SQL condition that selects the works `w` that take capacity on their node. In the phases collecting
// and exited, the processes of an attempt have ended: the node only delivers the rest of the log and the reports, which
// takes no capacity. An engine keeps its capacity until it is released, because it will be started again.
const TakesRoom = `w.released_at IS NULL AND (w.kind = 'engine' OR w.phase NOT IN ('collecting', 'exited'))`
