package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Disclosure lists what the reports of a protected run may disclose, as declared by its recipe. Such reports may
// contain records of a protected dataset, so the methods named Withhold remove other content before a report is stored.
// Of a removed text, they keep at most the length. They return how many parts of the report they removed or replaced.
type Disclosure struct {
	Metrics []string
	// Params maps each hyperparameter to its valid strings. Numbers, true, false and null are always valid.
	Params  map[string][]string
	Formats []string // of artifacts
}

// withheldText replaces texts that must not be empty.
const withheldText = "withheld"

// Declares reports whether the recipe declares a metric.
func (d *Disclosure) Declares(metric string) bool { return slices.Contains(d.Metrics, metric) }

// WithheldWriter returns the name under which a writer of a protected run is stored, because the run chooses the names
// of its writers. The result for a writer never changes, so that the numbers of the writer's requests stay known.
func WithheldWriter(runID, writer string) string {
	sum := sha256.Sum256([]byte(runID + "\n" + writer))
	return hex.EncodeToString(sum[:16])
}

// Withhold removes the content of every sample, including extra. It preserves the reward, and stores the lengths of
// user, assistant and env in extra. It returns the number of samples.
func (v *Validation) Withhold() int {
	for i := range v.Samples {
		s := &v.Samples[i]
		s.Extra = []byte(`{"withheld":{"user":` + length(s.User) + `,"assistant":` + length(s.Assistant) + `,"env":` + length(s.Env) + `}}`)
		s.User, s.Assistant, s.Env = nil, nil, nil
	}
	return len(v.Samples)
}

// length returns the number of characters of a part: of its text if the part is a string, otherwise of its JSON. For a
// missing part it returns null.
func length(raw []byte) string {
	if raw == nil {
		return "null"
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil { // not a string
		return strconv.Itoa(utf8.RuneCount(raw))
	}
	return strconv.Itoa(utf8.RuneCountInString(text))
}

// Withhold keeps the hyperparameters that the recipe declares if their values are valid. Numbers are stored as float64,
// because a JSON number can have any number of digits, which could contain hidden text.
func (p *Hparams) Withhold(d *Disclosure) int {
	before := len(p.Params)
	kept := p.Params[:0]
	for _, one := range p.Params {
		words, declared := d.Params[one.Key]
		if one.Value = disclosed(one.Value, words); declared && one.Value != nil {
			kept = append(kept, one)
		}
	}
	p.Params = kept
	return before - len(kept)
}

// disclosed returns the JSON of a value that may be stored, or nil.
func disclosed(raw []byte, words []string) []byte {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil
	}
	switch v := v.(type) {
	case string:
		if !slices.Contains(words, v) {
			return nil
		}
	case float64:
		if math.IsInf(v, 0) {
			return nil
		}
	case []any, map[string]any:
		return nil
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return out
}

// Withhold replaces every character of the output by an x. The number and the lengths of lines remain. It returns the
// number of replaced characters.
func (l *Logs) Withhold() (characters int) {
	for i, chunk := range l.Chunks {
		l.Chunks[i] = strings.Map(func(c rune) rune {
			if c == '\n' || c == '\r' {
				return c
			}
			characters++
			return 'x'
		}, chunk)
	}
	return characters
}

// Withhold removes a path on a host, and removes the format unless the recipe declares it. The path of an uploaded
// object is kept, because ObjectName has chosen its name.
func (a *Artifact) Withhold(d *Disclosure) (texts int) {
	if !slices.Contains(d.Formats, a.Format) {
		a.Format = withheldText
		texts++
	}
	if !strings.Contains(a.Path, ":") {
		sum := sha256.Sum256([]byte(a.Path)) // different paths stay different
		a.Path = withheldText + "/" + hex.EncodeToString(sum[:])
		texts++
	}
	return texts
}

// ObjectName returns the file name under which an artifact of a protected run is uploaded: its kind, and its extension
// if that is .tar or a declared format.
func (d *Disclosure) ObjectName(kind, given string) string {
	if ext := path.Ext(given); ext == ".tar" || ext != "" && slices.Contains(d.Formats, ext[1:]) {
		return kind + ext
	}
	return kind
}

// measures returns the keys of hardware samples that the reporter sends.
func measures() []string {
	return []string{
		"cpu", "mem", "mem_total", "net_rx", "net_tx", "disk_read", "disk_write", "util", "power", "temp",
	}
}

// maxGPUDigits is the maximum number of digits of a GPU's number in the samples of a protected run.
const maxGPUDigits = 3

// Withhold keeps the samples that have a known key and a valid GPU number or no GPU, but removes the names of their
// nodes. It returns the number of removed samples.
func (h *Hardware) Withhold() int {
	before := len(h.Points)
	h.Points = slices.DeleteFunc(h.Points, func(p HardwarePoint) bool {
		return !slices.Contains(measures(), p.Key) || len(p.GPU) > maxGPUDigits || strings.Trim(p.GPU, "0123456789") != ""
	})
	for i := range h.Points {
		h.Points[i].Node = ""
	}
	return before - len(h.Points)
}

// Withhold keeps the score, without the names of the benchmark, if the recipe declares its metric. It removes
// evaluations and rollouts, because they contain names and keys that the run chooses. It returns the number of removed
// scores, evaluations and rollouts.
func (b *Benchmark) Withhold(d *Disclosure) int {
	removed := len(b.Rollouts)
	if b.Evaluation != nil {
		removed++
	}
	b.Name, b.Version, b.Evaluation, b.Rollouts = withheldText, "", nil, nil
	if b.Score == nil {
		return removed
	}
	if !d.Declares(b.Score.Metric) {
		b.Score = nil
		return removed + 1
	}
	b.Score.ConfigDigest, b.Score.SamplesURI = "", ""
	return removed
}

// Withhold removes all items: descriptions of environments and machines are texts of the run.
func (p *Records) Withhold() int {
	removed := len(p.Items)
	p.Items = nil
	return removed
}
