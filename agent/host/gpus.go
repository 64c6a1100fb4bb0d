package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

// gpus returns the GPUs that works may get. There are none if the device files have changed so that the agent's
// CUDA_VISIBLE_DEVICES is no longer valid.
func (h *Host) gpus() []executor.GPU {
	found, _ := executor.PermittedGPUs(h.folders.List(), h.cfg.Environ) // New has checked the variable
	return found
}

// CountGPUs returns the number of GPUs that works may get.
func (h *Host) CountGPUs() int { return len(h.gpus()) }

// devices returns the devices of the work's GPUs, and the other files that the driver's libraries need.
func (w *work) devices() []boundary.Bind {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.assignment.GPUs) == 0 {
		return nil
	}
	// The libraries read the PCI address of each device there.
	binds := []boundary.Bind{{Path: "/sys", Access: boundary.ReadOnly}}
	for _, number := range w.assignment.GPUs {
		binds = append(binds, boundary.Bind{Path: w.host.folders.Device(number), Access: boundary.Device})
	}
	for _, name := range []string{"ctl", "-uvm", "-uvm-tools", "-modeset"} {
		binds = append(binds, boundary.Bind{Path: filepath.Join(w.host.folders.Dev, "nvidia"+name), Access: boundary.Device, Optional: true})
	}
	return binds
}

// takeGPUs assigns the given number of GPUs, which no other running work uses, to the work. It returns them in the
// format of CUDA_VISIBLE_DEVICES. An empty value hides all devices.
func (w *work) takeGPUs(count int) (string, error) {
	isolated, err := w.host.isolated()
	if err != nil {
		return "", err
	}
	w.host.mu.Lock()
	defer w.host.mu.Unlock()
	w.mu.Lock()
	have := len(w.assignment.GPUs)
	w.mu.Unlock()
	if have < count {
		taken := w.host.takenGPUs()
		var free []int
		for _, g := range w.host.gpus() {
			if !slices.Contains(taken, g.Number) {
				free = append(free, g.Number)
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
	w.mu.Lock()
	defer w.mu.Unlock()
	return visibleTo(w.assignment.GPUs, w.host.folders.List(), isolated)
}

// visibleTo returns the value of CUDA_VISIBLE_DEVICES for a work that has the GPUs with the given numbers. For an
// isolated work, the driver numbers only the devices that the work can open, so the value counts from 0. Otherwise the
// value lists the UUIDs of the GPUs; a GPU without a UUID is listed by its index among all GPUs.
func visibleTo(numbers []int, all []executor.GPU, isolated bool) (string, error) {
	var names []string
	for n, number := range numbers {
		if isolated {
			names = append(names, strconv.Itoa(n))
			continue
		}
		i := slices.IndexFunc(all, func(g executor.GPU) bool { return g.Number == number })
		if i < 0 {
			return "", ended(executor.ReasonStart, errors.New("a GPU that was assigned to the work no longer exists on this node"))
		}
		if all[i].UUID != "" {
			names = append(names, all[i].UUID)
		} else {
			names = append(names, strconv.Itoa(i))
		}
	}
	return strings.Join(names, ","), nil
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
