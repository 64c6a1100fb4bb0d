package executor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// GPU is an NVIDIA device of the machine.
type GPU struct {
	Number int    // the number in the name of the device file; the driver calls it the minor number
	UUID   string // empty if the driver does not show it
}

// GPUFolders are the folders from which GPUs are read.
type GPUFolders struct {
	Dev  string // contains the device files nvidia0, nvidia1 …
	Proc string // contains a folder for each device, made by the driver and named after the device's PCI address
}

// MachineGPUs returns the folders of this machine.
func MachineGPUs() GPUFolders {
	return GPUFolders{Dev: "/dev", Proc: "/proc/driver/nvidia/gpus"}
}

// Device returns the device file with this number.
func (f GPUFolders) Device(number int) string {
	return filepath.Join(f.Dev, "nvidia"+strconv.Itoa(number))
}

// List returns the GPUs that have a device file, ordered by their PCI addresses. CUDA uses the same order if
// CUDA_DEVICE_ORDER is PCI_BUS_ID. A container may have any of the machine's device files, such as only nvidia2 and
// nvidia3. If the driver's folder does not describe all of them, the GPUs are ordered by number.
func (f GPUFolders) List() []GPU {
	files, _ := filepath.Glob(filepath.Join(f.Dev, "nvidia[0-9]*"))
	var all []GPU
	for _, file := range files {
		if n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(file), "nvidia")); err == nil {
			all = append(all, GPU{Number: n})
		}
	}
	slices.SortFunc(all, func(a, b GPU) int { return a.Number - b.Number })
	found, _ := filepath.Glob(filepath.Join(f.Proc, "*", "information"))
	slices.Sort(found)
	var onBus []GPU
	for _, file := range found {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		g, ok := parseGPU(string(raw))
		if ok && slices.Contains(all, GPU{Number: g.Number}) {
			onBus = append(onBus, g)
		}
	}
	if len(onBus) == len(all) {
		return onBus
	}
	return all
}

// parseGPU reads the driver's description of a device.
func parseGPU(text string) (g GPU, ok bool) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); strings.TrimSpace(name) {
		case "GPU UUID":
			g.UUID = value
		case "Device Minor":
			n, err := strconv.Atoi(value)
			g.Number, ok = n, err == nil
		}
	}
	return g, ok
}

// visibleVariable is the environment variable with which an operator limits the agent to some of the machine's GPUs.
const visibleVariable = "CUDA_VISIBLE_DEVICES"

// PermittedGPUs returns those of the given GPUs that the variable CUDA_VISIBLE_DEVICES in the given environment
// permits, in the order of that variable. If the variable is not set, it returns all GPUs. Each entry of the variable
// is the index of a GPU in the given list, a UUID or the beginning of a UUID.
func PermittedGPUs(all []GPU, environ []string) ([]GPU, error) {
	list, restricted := "", false
	for _, variable := range environ {
		if value, ok := strings.CutPrefix(variable, visibleVariable+"="); ok {
			list, restricted = value, true // if the variable is set several times, the last value counts
		}
	}
	if !restricted {
		return all, nil
	}
	var chosen []GPU
	for entry := range strings.SplitSeq(list, ",") {
		if entry = strings.TrimSpace(entry); entry == "" || entry == "-1" || strings.EqualFold(entry, "NoDevFiles") {
			break // CUDA also ignores the rest of the list
		}
		g, err := pick(all, entry)
		if err != nil {
			return nil, fmt.Errorf("%w; correct %s in the agent's environment", err, visibleVariable)
		}
		if slices.Contains(chosen, g) {
			return nil, fmt.Errorf("the GPU %q is listed twice; correct %s in the agent's environment", entry, visibleVariable)
		}
		chosen = append(chosen, g)
	}
	return chosen, nil
}

func pick(all []GPU, entry string) (GPU, error) {
	if n, err := strconv.Atoi(entry); err == nil {
		if n < 0 || n >= len(all) {
			return GPU{}, fmt.Errorf("the machine has no GPU %d; it has %d GPUs, numbered from 0", n, len(all))
		}
		return all[n], nil
	}
	var found []GPU
	for _, g := range all {
		if g.UUID != "" && strings.HasPrefix(g.UUID, entry) {
			found = append(found, g)
		}
	}
	if len(found) != 1 {
		return GPU{}, fmt.Errorf("%q does not name exactly one GPU of the machine", entry)
	}
	return found[0], nil
}
