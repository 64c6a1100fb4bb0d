package sbatch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var (
	errTime = errors.New("is not a time; write minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes or " +
		"days-hours:minutes:seconds")
	errNoLimit = errors.New("requests no time limit, which does not exist here; state a time up to 365-0")
	errLong    = errors.New("is longer than a year; state a time up to 365-0")
	errMemory  = errors.New("is not a size; write a number of megabytes, or a number and one of the units K, M, G and T")
)

// count reads a number of decimal digits, at most nine.
func count(text string) (int, bool) {
	if text == "" || len(text) > 9 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// Seconds reads a time in one of Slurm's formats: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
// days-hours:minutes or days-hours:minutes:seconds. It refuses times of 0, which Slurm takes as unlimited, and of more than a year.
func Seconds(text string) (int, error) {
	switch strings.ToLower(text) {
	case "unlimited", "infinite", "-1":
		return 0, errNoLimit
	}
	days, clock, withDays := strings.Cut(text, "-")
	if !withDays {
		days, clock = "0", text
	}
	parts := append([]string{days}, strings.Split(clock, ":")...)
	if len(parts) > 4 {
		return 0, errTime
	}
	n := make([]int, 4) // days and up to three parts of the clock
	for i, part := range parts {
		var ok bool
		if n[i], ok = count(part); !ok {
			return 0, errTime
		}
	}
	hours, minutes, seconds := n[1], n[2], n[3]
	if !withDays {
		switch len(parts) {
		case 2:
			hours, minutes, seconds = 0, n[1], 0
		case 3:
			hours, minutes, seconds = 0, n[1], n[2]
		}
	}
	total := ((int64(n[0])*24+int64(hours))*60+int64(minutes))*60 + int64(seconds)
	switch {
	case total == 0:
		return 0, errNoLimit
	case total > maxSeconds:
		return 0, errLong
	}
	return int(total), nil
}

// kibibytes reads a size of memory and returns it in units of 2^10 bytes. Sizes that no node has are cut.
func kibibytes(text string) (int64, error) {
	digits := strings.TrimRight(text, "KMGTBkmgtb")
	n, ok := count(digits)
	if !ok {
		return 0, errMemory
	}
	unit := int64(1 << 10)
	switch strings.TrimSuffix(strings.ToUpper(text[len(digits):]), "B") {
	case "K":
		unit = 1
	case "":
		if digits != text {
			return 0, errMemory
		}
	case "M":
	case "G":
		unit = 1 << 20
	case "T":
		unit = 1 << 30
	default:
		return 0, errMemory
	}
	return min(int64(n)*unit, (maxMemoryGB+1)<<20), nil
}

// gpuCount reads NUMBER or TYPE:NUMBER.
func gpuCount(text string) (kind string, n int, err error) {
	kind, number, typed := strings.Cut(text, ":")
	if !typed {
		kind, number = "", text
	}
	n, ok := count(number)
	if !ok {
		return "", 0, fmt.Errorf("%q is not a number of GPUs; write one number for GPUs of one type", text)
	}
	return kind, n, nil
}

// gresCount reads the GPUs of the option --gres: gpu, gpu:NUMBER, gpu:TYPE or gpu:TYPE:NUMBER.
func gresCount(text string) (kind string, n int, err error) {
	if strings.EqualFold(text, "none") {
		return "", 0, nil
	}
	name, rest, more := strings.Cut(text, ":")
	if name != "gpu" {
		return "", 0, fmt.Errorf("requests %q, which is not assigned to jobs; only gpu is", text)
	}
	if !more {
		return "", 1, nil
	}
	if _, number := count(rest); !number && !strings.ContainsAny(rest, ":,") {
		return rest, 1, nil
	}
	return gpuCount(rest)
}

// outputProblem returns what is wrong with the pattern of an output file, or "".
func outputProblem(pattern string) string {
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' {
			continue
		}
		i++
		if i == len(pattern) || !strings.ContainsRune("%jxu", rune(pattern[i])) {
			return fmt.Sprintf("contains %q, which has no meaning here; use %%j for the id of the job, %%x for its name and %%u for the user",
				pattern[i-1:min(i+1, len(pattern))])
		}
	}
	return ""
}
