package example

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// deepest limits the nesting of filled values, because schemas may contain themselves.
const deepest = 6

// fill returns a plausible value for a part that a golden leaves open.
func (d *document) fill(node map[string]any, name string, depth int) any {
	s := d.at(node)
	switch model := d.models[s.component]; {
	case model != nil:
		return clone(model)
	case s.null || depth > deepest:
		return nil
	}
	switch s.kind() {
	case "object":
		out := map[string]any{}
		for _, member := range s.required() {
			out[member] = d.fill(s.property(member), member, depth+1)
		}
		return out
	case "array":
		return []any{d.fill(in(s.node, "items"), name, depth+1)}
	case "":
		if v, ok := fixed(s.node); ok {
			return v
		}
		if v, ok := words()[name]; ok {
			return v
		}
		return map[string]any{}
	default:
		return scalar(s, name, s.kind())
	}
}

// fixed returns the value that a schema prescribes or proposes.
func fixed(node map[string]any) (any, bool) {
	if v, ok := node["const"]; ok {
		return v, true
	}
	for _, word := range []string{"examples", "enum"} {
		if list, ok := node[word].([]any); ok && len(list) > 0 {
			return list[0], true
		}
	}
	return nil, false
}

// scalar returns a plausible value of the kind for a member with the name.
func scalar(s schema, name, kind string) any {
	if v, ok := fixed(s.node); ok {
		return v
	}
	switch kind {
	case "boolean", "bool":
		return true
	case "integer", "int", "number":
		return number(s.node, name)
	default:
		return text(s.node, name)
	}
}

func number(node map[string]any, name string) json.Number {
	out := int64(1)
	switch {
	case strings.Contains(name, "bytes"):
		out = 1 << 20
	case strings.Contains(name, "queued") || strings.Contains(name, "unhealthy") || strings.Contains(name, "held"):
		out = 0
	case name == "status":
		out = 200
	case strings.Contains(name, "gpu"):
		out = 8
	case strings.HasSuffix(name, "_s") || strings.HasSuffix(name, "_in") || strings.HasSuffix(name, "_ms"):
		out = 60
	}
	for _, bound := range []struct {
		word string
		sign int64
	}{{"minimum", 1}, {"maximum", -1}} {
		limit, _ := node[bound.word].(json.Number)
		if n, err := limit.Int64(); err == nil && (out-n)*bound.sign < 0 {
			out = n
		}
	}
	return json.Number(strconv.FormatInt(out, 10))
}

func text(node map[string]any, name string) string {
	description, _ := node["description"].(string)
	pattern, _ := node["pattern"].(string)
	switch node["format"] {
	case "date-time":
		return moment(name)
	case "email":
		return "ada@example.org"
	case "uri":
		return server
	}
	prefix := regexp.MustCompile("`([a-z]+)_\\.\\.\\.`").FindStringSubmatch(description)
	switch {
	case pattern != "":
		return sample(pattern)
	case prefix != nil:
		return id(prefix[1])
	}
	out, ok := words()[name]
	switch {
	case ok:
	case strings.HasSuffix(name, "digest"):
		out = "sha256:" + digits
	case strings.HasSuffix(name, "_at"):
		out = moment(name)
	default:
		out = strings.ReplaceAll(name, "_", " ")
	}
	if limit, ok := node["maxLength"].(json.Number); ok {
		if n, err := limit.Int64(); err == nil && int64(len(out)) > n {
			out = out[:n]
		}
	}
	return out
}

// words returns texts for members by their names.
func words() map[string]string {
	return map[string]string{
		"url": server + "/api/blobs/example", "object_uri": "blob://runs/" + id("run") + "/1/model/" + digits + "/model.bin", "owner": "ada",
		"username": "ada", "actor": "ada", "created_by": "ada", "changed_by": "ada", "actor_id": id("usr"), "project": "search", "name": "aurora",
		"digest": "sha256:" + digits, "sha256": digits, "access_token": token(), "token": token(), "password": "example-password-1",
		"ref": "ds/search/questions@v1", "state": "ready", "version": "1.0.0", "recipe_version": "1.0.0", "core": "1.0.0", "server": "1.0.0",
		"kid": digits[:16], "x": digits[:43], "key": "installation.announcement", "type": "string", "description": "What it is for.",
		"value": "Maintenance on Sunday", "default": "", "service": "jobs", "pool": "default", "pools": "default", "limits": "cgroups",
		"agent_address": "signalbox.example.org:7443", "method": "POST", "path": "chat/completions", "outcome": "ok", "reason": "no_capacity",
		"namespaces": "network", "unlimited": "disk",
		"refresh_token": "srt_" + secret, "detail": "the request is refused", "message": "the request is refused", "error": "invalid_request",
		"usage_source": "engine", "token_name": "ci", "api": "service/v1", "runtime_id": "command-py311", "image": "", "command": "serve",
	}
}
