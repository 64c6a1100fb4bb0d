// Package llm checks the configuration of the diagnosis agent's language model: whether its address, key, name and
// function calls work. The server of the model is called the upstream. Errors quote its responses.
//
// It promises:
//   - the result has all its fields, whatever the upstream does;
//   - the key appears in no field, no log and no audit row, even if the upstream sends it back in part or encoded;
//   - at most MaxText bytes of a response body are shown, without control characters;
//   - no address that package egress rejects is called, and no redirect is followed;
//   - one test runs at a time in the whole installation;
//   - no text of a result is stored: the audit row contains only the endpoint and whether the checks succeeded.
package llm

import "github.com/signalbox-dev/signalbox/platform/secret"

// Settings hold the address, the name and the key of the model.
type Settings struct {
	BaseURL string
	Model   string
	Key     secret.String
}

// missing lists the settings that are not set.
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

// Result is the result of a test.
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
	notTested = "not tested: the model did not respond"
	otherTest = "another test is running; try again in a minute"
)
