package logs

import "regexp"

// Level is the severity that a line states. The levels are in increasing order.
type Level int

// The levels. A line without a level has NoLevel.
const (
	NoLevel Level = iota
	Debug
	Info
	Warning
	Error
)

// levelBytes is the part of a line in which its level is looked for.
const levelBytes = 160

// levels finds the levels of lines. It knows the usual formats: a word in capital letters, the member or key `level`, and
// the first and last line of a Python exception, each also in color.
type levels struct{ stated, raised *regexp.Regexp }

// The expressions of levels. In wordLevel, each level has one group for words and one for values of keys.
const (
	wordLevel = `(?:\b|\x1b\[[0-9;]*m)(?:(TRACE|DEBUG)|(INFO|NOTICE)|(WARN|WARNING)|(ERROR|CRITICAL|FATAL|PANIC))\b` +
		`|\b(?:level|levelname|severity)"?[=:]\s*"?(?i:(trace|debug)|(info|notice)|(warn|warning)|(err|error|critical|fatal|panic))\b`
	exception = `^(?:\x1b\[[0-9;]*m)*(?:Traceback \(most recent call last\)|[\w.]*(?:Error|Exception|Interrupt)(?::|$))`
)

func newLevels() *levels {
	return &levels{stated: regexp.MustCompile(wordLevel), raised: regexp.MustCompile(exception)}
}

// of returns the level of a line: the first one that its beginning states.
func (l *levels) of(line []byte) Level {
	line = line[:min(len(line), levelBytes)]
	if l.raised.Match(line) {
		return Error
	}
	at := l.stated.FindSubmatchIndex(line)
	for group := 2; group < len(at); group += 2 {
		if at[group] >= 0 {
			return Level((group/2-1)%4 + 1)
		}
	}
	return NoLevel
}

// ParseLevel returns the level with the name, or NoLevel.
func ParseLevel(name string) Level {
	return map[string]Level{"debug": Debug, "info": Info, "warning": Warning, "error": Error}[name]
}
