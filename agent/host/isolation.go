package host

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// CountGPUs returns the number of NVIDIA devices of the machine.
func CountGPUs() int {
	found, _ := filepath.Glob("/dev/nvidia[0-9]*")
	return len(found)
}

// takeGPUs assigns devices that no other running work uses. It returns their numbers in the format of
// CUDA_VISIBLE_DEVICES. An empty value hides all devices.
func (w *work) takeGPUs(count int) (string, error) {
	w.host.mu.Lock()
	defer w.host.mu.Unlock()
	w.mu.Lock()
	have := len(w.assignment.GPUs)
	w.mu.Unlock()
	if have < count {
		taken := w.host.takenGPUs()
		var free []int
		for i := range CountGPUs() {
			if !slices.Contains(taken, i) {
				free = append(free, i)
			}
		}
		if len(free) < count {
			return "", ended(executor.ReasonStart, fmt.Errorf("the work needs %d GPUs, but only %d are free on this node", count, len(free)))
		}
		w.mu.Lock()
		w.assignment.GPUs = free[:count]
		err := w.saveAssignment()
		w.mu.Unlock()
		if err != nil {
			return "", err
		}
	}
	var numbers []string
	for _, gpu := range w.assignment.GPUs {
		numbers = append(numbers, strconv.Itoa(gpu))
	}
	return strings.Join(numbers, ","), nil
}

// takenGPUs returns the devices of works whose processes may be running. The caller holds h.mu.
func (h *Host) takenGPUs() []int {
	var taken []int
	for _, w := range h.works {
		w.mu.Lock()
		if w.seen.Phase != executor.PhaseExited && w.seen.Phase != executor.PhaseCollecting {
			taken = append(taken, w.assignment.GPUs...)
		}
		w.mu.Unlock()
	}
	return taken
}
