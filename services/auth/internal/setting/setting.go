// Package setting owns what an admin changes without a restart: typed values with a history, changed only
// from the version that was seen. Secrets go in and are used, and are never shown again. It promises that a
// reader has the value in force at each read, whichever replica took the change, and that there is no
// setting that nothing reads.
package setting

import (
	"encoding/json"
	"fmt"
	"time"
)

// Type is what a setting's value is.
type Type string

// The types.
const (
	String     Type = "string"
	Integer    Type = "integer"
	Boolean    Type = "boolean"
	StringList Type = "string_list"
	Secret     Type = "secret"
)

// Definition is one known setting.
type Definition struct {
	Key         string
	Type        Type
	Description string
	// Default is a JSON value, nil for a secret.
	Default json.RawMessage
	// Min and Max bound the characters of a text or a secret, an integer, or the items of a list.
	Min, Max int
}

// Keys of the settings that there are.
const (
	// InstallationName and Announcement are read by GET /api/auth/config, for the pages before the console.
	InstallationName = "installation.name"
	Announcement     = "installation.announcement"
	// AgentBaseURL, AgentModel and AgentKey are read by the self-check of the diagnosis agent's language model.
	AgentBaseURL = "agent.base_url"
	AgentModel   = "agent.model"
	AgentKey     = "agent.api_key"
	// OIDCClientSecret is read by the sign-in at the provider.
	OIDCClientSecret = "oidc.client_secret" //nolint:gosec // the name of one.
)

// Known are all settings. Each has a reader.
func Known() []Definition {
	return []Definition{
		{
			Key: AgentKey, Type: Secret, Min: 4, Max: 1024,
			Description: "The key of the diagnosis agent's language model, sent as a bearer.",
		},
		{
			Key: AgentBaseURL, Type: String, Default: json.RawMessage(`""`), Max: 512,
			Description: "Where the diagnosis agent's language model is, up to /v1: an OpenAI-compatible API. Private networks need SERVICE_EGRESS_ALLOW.",
		},
		{
			Key: AgentModel, Type: String, Default: json.RawMessage(`""`), Max: 256,
			Description: "The name of the diagnosis agent's language model.",
		},
		{
			Key: Announcement, Type: String, Default: json.RawMessage(`""`), Max: 500,
			Description: "What everybody is told before and after signing in; nothing where empty.",
		},
		{
			Key: InstallationName, Type: String, Default: json.RawMessage(`"Signalbox"`), Min: 1, Max: 64,
			Description: "The installation's name on the pages where people sign in.",
		},
		{
			Key: OIDCClientSecret, Type: Secret, Min: 8, Max: 1024,
			Description: "The installation's secret at its OpenID provider, in the place of SERVICE_OIDC_CLIENT_SECRET.",
		},
	}
}

// Version is a value that a setting had or has.
type Version struct {
	Number int
	// Set is false where the default was put back.
	Set bool
	// Value is the JSON value, nil for a secret and for the default.
	Value         json.RawMessage
	ChangedAt     time.Time
	ChangedBy     string
	ChangedByName string

	sealed []byte
}

// Current is a setting as it is.
type Current struct {
	Definition

	// Version is its newest one, zero where it was never changed.
	Version
}

// InForce is the value that readers get, nil for a secret.
func (c Current) InForce() json.RawMessage {
	if c.Set && c.Type != Secret {
		return c.Value
	}
	return c.Default
}

// shown is what the audit tells of a state.
func (c Current) shown() map[string]any {
	out := map[string]any{"version": c.Number, "set": c.Set}
	if c.Type != Secret {
		out["value"] = c.InForce()
	}
	return out
}

// place binds a sealed secret to its row.
func place(key string, version int) string {
	return fmt.Sprintf("setting_version.sealed:%s/%d", key, version)
}
