package plot

import (
	"math"
	"strconv"
	"time"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
)

// maxDigits is the number of significant digits with which any two numbers differ.
const maxDigits = 17

// Numbers returns two numbers with so many digits that they differ.
func Numbers(low, high float64) (left, right string) {
	left, right = output.Digits(low), output.Digits(high)
	for digits := 6; left == right && low != high && digits <= maxDigits; digits++ {
		left, right = strconv.FormatFloat(low, 'g', digits, 64), strconv.FormatFloat(high, 'g', digits, 64)
	}
	return left, right
}

// Times returns a function that formats two times, in seconds since 1970, for an axis: with the date if the days differ,
// and with so much of the seconds that the texts differ.
func Times(zone *time.Location) func(low, high float64) (left, right string) {
	return func(low, high float64) (left, right string) {
		from, to := moment(low, zone), moment(high, zone)
		layout := "15:04:05"
		switch span := to.Sub(from); {
		case from.Format(time.DateOnly) != to.Format(time.DateOnly):
			layout = "2006-01-02 15:04"
		case span < time.Second:
			layout = "15:04:05.000"
		}
		return from.Format(layout), to.Format(layout)
	}
}

func moment(seconds float64, zone *time.Location) time.Time {
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*float64(time.Second))).In(zone)
}
