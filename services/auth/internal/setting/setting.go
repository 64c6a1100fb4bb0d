// Package setting owns the settings that an admin can change without a restart. Values are typed and have a history. A
// change must contain the version that it replaces. Secrets can be set and used, but are never shown again. The package
// promises that every read returns the current value, whichever replica changed it, and that the product uses every
// known setting.
package setting

import (
	"encoding/json"
	"fmt"
	"time"
)

// Type is the type of a setting's value.
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
	// Default is a JSON value; nil for a secret.
	Default json.RawMessage
	// Min and Max are inclusive bounds. They limit the number of characters in a string or secret, the value of an
	// integer, or the number of items in a list.
	Min, Max int
}

// Keys of the known settings.
const (
	// InstallationName and Announcement are read by GET /api/auth/config, which needs no sign-in.
	InstallationName = "installation.name"
	Announcement     = "installation.announcement"
	// AgentBaseURL, AgentModel and AgentKey are read by the self-check of the diagnosis agent's language model.
	AgentBaseURL = "agent.base_url"
	AgentModel   = "agent.model"
	AgentKey     = "agent.api_key"
	// OIDCClientSecret is read by the sign-in with the provider.
	OIDCClientSecret = "oidc.client_secret" //nolint:gosec // the name of a secret
)

// Known returns all settings, ordered by key. Each of them is used by the code.
func Known() []Definition {
	return []Definition{
		{
			Key: AgentKey, Type: Secret, Min: 4, Max: 1024,
			Description: "API key of the diagnosis agent's language model, sent as a bearer token.",
		},
		{
			Key: AgentBaseURL, Type: String, Default: json.RawMessage(`""`), Max: 512,
			Description: "Base URL of the diagnosis agent's language model, up to and including /v1. The API must be OpenAI-compatible. Private networks need SERVICE_EGRESS_ALLOW.",
		},
		{
			Key: AgentModel, Type: String, Default: json.RawMessage(`""`), Max: 256,
			Description: "Name of the diagnosis agent's language model.",
		},
		{
			Key: Announcement, Type: String, Default: json.RawMessage(`""`), Max: 500,
			Description: "Announcement shown to all users before and after sign-in; empty for none.",
		},
		{
			Key: InstallationName, Type: String, Default: json.RawMessage(`"Signalbox"`), Min: 1, Max: 64,
			Description: "Name of the installation on the sign-in pages.",
		},
		{
			Key: OIDCClientSecret, Type: Secret, Min: 8, Max: 1024,
			Description: "Secret of the installation at its OpenID provider; takes precedence over SERVICE_OIDC_CLIENT_SECRET.",
		},
	}
}

// Version is a current or former value of a setting.
type Version struct {
	Number int
	// Set is false if this version has the default value.
	Set bool
	// Value is the JSON value; nil for a secret and for the default.
	Value         json.RawMessage
	ChangedAt     time.Time
	ChangedBy     string
	ChangedByName string

	sealed []byte
}

// Current is the current state of a setting.
type Current struct {
	Definition

	// Version is the newest version. Number is zero if the setting was never changed.
	Version
}

// InForce returns the current value, or the default if none is set. It is nil for a secret.
func (c Current) InForce() json.RawMessage {
	if c.Set && c.Type != Secret {
		return c.Value
	}
	return c.Default
}

// shown returns the fields of a setting that are written to the audit log.
func (c Current) shown() map[string]any {
	out := map[string]any{"version": c.Number, "set": c.Set}
	if c.Type != Secret {
		out["value"] = c.InForce()
	}
	return out
}

// place returns the associated data that binds an encrypted secret to its row.
func place(key string, version int) string {
	return fmt.Sprintf("setting_version.sealed:%s/%d", key, version)
}
