package agent

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

// takeInventory returns the inventory of this node. It counts the machine's CPUs itself.
func takeInventory(version, limits string, gpus int, memory int64) *jobsv1.Inventory {
	return &jobsv1.Inventory{
		Cpus: int32(runtime.NumCPU()), MemoryBytes: memory, Gpus: int32(gpus),
		Limits: limits, Version: version,
	}
}

// machineMemory returns the machine's memory in bytes.
func machineMemory() (int64, error) {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read the machine's memory: %w", err)
	}
	return parseMeminfo(string(raw))
}

// maxProblem is the maximum length, in bytes, of the reason why works or their network are not restricted. The server
// rejects a longer one.
const maxProblem = 1024

// newRestricted registers the gauge that records whether the network of works is restricted. meters may be nil.
func newRestricted(meters metric.MeterProvider) (metric.Int64Gauge, error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	const name = "agent_network_restricted"
	gauge, err := meters.Meter("agent").Int64Gauge(name,
		metric.WithDescription("1 if the network of works is restricted, 0 if they reach everything that the node reaches"))
	if err != nil {
		return nil, fmt.Errorf("create the gauge %s: %w", name, err)
	}
	return gauge, nil
}

func boundaryToProto(r boundary.Report) *jobsv1.NodeBoundary {
	m := &jobsv1.NodeBoundary{Kind: string(r.Kind), Required: r.Required, Namespaces: r.Namespaces, Unlimited: r.Unlimited, ClosesNetwork: r.ClosesNetwork}
	if r.Users != "" {
		m.Users = &r.Users
	}
	m.Problem, m.NetworkProblem = problem(r.Problem), problem(r.NetworkProblem)
	m.Network, m.Reasons = string(r.Network), make(map[string]string, len(r.Reasons))
	for resource, why := range r.Reasons {
		m.Reasons[resource] = *problem(why)
	}
	return m
}

// problem returns at most maxProblem bytes of the text, or nil if it is empty.
func problem(text string) *string {
	if text == "" {
		return nil
	}
	text = strings.ToValidUTF8(text[:min(len(text), maxProblem)], "")
	return &text
}

func parseMeminfo(text string) (int64, error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("parse MemTotal of /proc/meminfo: %w", err)
			}
			return kib << 10, nil
		}
	}
	return 0, errors.New("/proc/meminfo has no valid MemTotal line")
}
