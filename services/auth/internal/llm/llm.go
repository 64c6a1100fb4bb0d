// Package llm owns the self-check of the diagnosis agent's language model: whether its address, key, name and
// function calling work, told in the upstream's own words.
//
// It promises: whatever the upstream does, the answer is a result with all its fields; the key is in none of
// them, in no log and in no audit row, also where the upstream sends it back in part or in another spelling;
// of the upstream's words at most MaxText bytes are told, without control characters; nothing that package
// egress refuses is called and no redirect is followed; one test runs at a time in the whole installation;
// and nothing is kept of it.
package llm

import "github.com/signalbox-dev/signalbox/platform/secret"

// Settings are how the model is called.
type Settings struct {
	BaseURL string
	Model   string
	Key     secret.String
}

// missing names what is not set.
func (s Settings) missing() []string {
	var out []string
	if s.BaseURL == "" {
		out = append(out, "base URL")
	}
	if s.Key.IsZero() {
		out = append(out, "key")
	}
	if s.Model == "" {
		out = append(out, "model")
	}
	return out
}

// Result is what a test found.
type Result struct {
	Configured bool
	OK         bool
	Model      string
	Endpoint   string
	Error      string
	Sample     string
	ToolsOK    bool
	ToolsError string
}

const (
	notTested = "not tested: the model did not answer"
	otherTest = "another test is running: try again in a minute"
)
