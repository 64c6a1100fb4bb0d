package agent

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/agent/host"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

// takeInventory reads the machine's CPUs, memory and GPUs.
func takeInventory(version, limits string) (*jobsv1.Inventory, error) {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil, fmt.Errorf("read the machine's memory: %w", err)
	}
	memory, err := parseMeminfo(string(raw))
	if err != nil {
		return nil, err
	}
	return &jobsv1.Inventory{
		Cpus: int32(runtime.NumCPU()), MemoryBytes: memory, Gpus: int32(host.CountGPUs()),
		Limits: limits, Version: version,
	}, nil
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
