package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/jobfile"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// RefusedJobError is the refusal of a job: its problems, with the lines of the file, and what mends them.
type RefusedJobError struct {
	Problems []string
	Remedy   string

	err error
}

// Error implements error.
func (e *RefusedJobError) Error() string { return strings.Join(e.Problems, "\n") }

// Unwrap returns the response of the server.
func (e *RefusedJobError) Unwrap() error { return e.err }

// explainRefusal returns the error of a submission with the lines of the file and with what mends it.
func (t *tool) explainRefusal(ctx context.Context, c *client.Client, file jobFile, err error) error {
	refused, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	if refused.Status == http.StatusUnprocessableEntity && file.raw != nil {
		if fields := jobfile.Explain(file.name, file.raw, refused.Body, file.set); len(fields) > 0 {
			return &RefusedJobError{Problems: fields, Remedy: "the members and their values: signalbox explain jobspec", err: err}
		}
	}
	if refused.Code == "" || !strings.HasPrefix(refused.Detail, refused.Code+": ") {
		return err // not the refusal of a gate
	}
	return &RefusedJobError{
		Problems: t.gateProblems(ctx, c, file, refused.Code, refused.Detail),
		Remedy:   t.remedy(ctx, c, file, refused.Code, refused.Detail), err: err,
	}
}

// gateProblems returns the refusal of a gate with the line of the file. All members of a lock that differ from the catalog are named.
func (t *tool) gateProblems(ctx context.Context, c *client.Client, file jobFile, gate, detail string) []string {
	recipe, path, err := recipeOf(file.spec)
	lock, ofFile := recipe["lock"].(map[string]any)
	if gate == "recipe_handshake" && err == nil && ofFile {
		if different, err := lockDifferences(ctx, c, path, lock, textAt(recipe, "version")); err == nil && len(different) > 0 {
			problems := make([]string, len(different))
			for i, d := range different {
				first, _, _ := strings.Cut(d.path, ".")
				problems[i] = file.line([]any{"body", "spec", "recipe", "lock", first}) + d.String()
			}
			return problems
		}
	}
	return []string{file.place(gate, detail) + detail}
}

// bestCheckpoint names the member of the spec that a recipe refuses if it states no goal for the metric.
const bestCheckpoint = "spec.checkpoint.keep_best"

// place returns the file and the line of what a gate refuses, such as "job.yaml:7: ", or "" if the file has no such line.
func (f jobFile) place(gate, detail string) string {
	member := map[string]string{
		"dialect": "api", "environment": "env", "package": "source", "sensitive_file": "source", "entrypoint_override": "source",
		"recipe_handshake": "recipe", "hparams": "hparams", "project": "project", "bindings": "bindings", "image_registry": "image",
		"quota": "resources", "hardware": "resources", "isolation": "resources", "containers": "image",
	}[gate]
	if member == "" {
		return ""
	}
	switch {
	case gate == "dialect":
		return f.line([]any{"body", member})
	case strings.Contains(detail, bestCheckpoint):
		return f.line([]any{"body", "spec", "checkpoint", "keep_best"})
	}
	path := append([]any{"body", "spec", member}, namedIn(f.spec[member], wordsOf(detail))...)
	return f.line(path)
}

// line returns the file and the line of a member, or "" if the file does not have it.
func (f jobFile) line(path []any) string {
	at, err := jobfile.Find(f.raw, path)
	if err != nil || at.Missing {
		return ""
	}
	return fmt.Sprintf("%s:%d: ", f.name, at.Line)
}

// wordsOf returns the words of a text that can name a member or a value.
func wordsOf(text string) map[string]bool {
	words := map[string]bool{}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(` ,;"'`, r) }) {
		words[strings.TrimSuffix(word, ":")] = true
	}
	return words
}

// namedIn returns the path of the first member of a value that has one of the words as its name or its text. The result is nil if there
// is none.
func namedIn(value any, words map[string]bool) []any {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range sortedKeys(value) {
			if text, isText := value[name].(string); words[name] || isText && words[text] {
				return []any{name}
			}
		}
		for _, name := range sortedKeys(value) {
			if inner := namedIn(value[name], words); inner != nil {
				return append([]any{name}, inner...)
			}
		}
	case []any:
		for i, item := range value {
			if inner := namedIn(item, words); inner != nil {
				return append([]any{i}, inner...)
			}
		}
	}
	return nil
}

// remedy returns what mends the refusal of a gate, or "" if its text contains it already.
func (t *tool) remedy(ctx context.Context, c *client.Client, file jobFile, gate, detail string) string {
	switch gate {
	case "environment":
		return "remove the variable; a program that needs it can be started as: env NAME=VALUE program"
	case "recipe_handshake":
		if strings.Contains(detail, "the catalog has no") {
			return "the recipes and their newest versions: signalbox recipes ls"
		}
		if strings.Contains(detail, bestCheckpoint) {
			return "" // the text has the remedy
		}
		name := file.name
		if name == "" || name == "-" {
			name = "FILE"
		}
		return fmt.Sprintf("write the current lock into the file: signalbox recipes lock %s --update", name)
	case "hparams":
		return fmt.Sprintf("the parameters and their values: signalbox recipes get %s", recipeName(file.spec))
	case "bindings":
		return "what you can read: signalbox datasets ls, signalbox models ls"
	case "project":
		return "the projects in which you can submit: signalbox projects ls"
	case "hardware", "isolation":
		return "the pools and their nodes: signalbox cluster pools, signalbox cluster nodes"
	case "sensitive_file":
		return "delete the file or keep it out of the package: list it in .signalboxignore"
	case "quota":
		return t.quotaRemedy(ctx, c, file, detail)
	}
	return ""
}

func recipeName(spec map[string]any) any {
	recipe, _ := spec["recipe"].(map[string]any)
	return recipe["name"]
}

// quotaRemedy returns whose limit a request for GPUs exceeds, and the command with which an admin raises it.
func (t *tool) quotaRemedy(ctx context.Context, c *client.Client, file jobFile, detail string) string {
	var requested, available int
	if _, err := fmt.Sscanf(detail, "quota: requested %d GPUs, %d available", &requested, &available); err != nil {
		return ""
	}
	var own struct {
		Subject string `json:"subject"`
		Limit   int    `json:"gpu_limit"`
	}
	if c.Get(ctx, "/api/quota", nil, &own) != nil {
		return "" // the refusal itself is what the user must see
	}
	if own.Limit == available {
		return fmt.Sprintf("your limit is %d; an admin can raise it: signalbox admin quotas set %s --gpus %d", available, own.Subject, requested)
	}
	return fmt.Sprintf("the limit of the project's team is %d; an admin can raise it: signalbox admin quotas set %s --of teams --gpus %d",
		available, t.teamOf(ctx, c, file), requested)
}

// teamOf returns the key of the team of a job's project, or TEAM if the caller cannot see it.
func (t *tool) teamOf(ctx context.Context, c *client.Client, file jobFile) string {
	const unknown = "TEAM"
	key, _ := file.spec["project"].(string)
	id, err := t.id(ctx, c, projectKind(), cmp.Or(key, "default"))
	if err != nil {
		return unknown
	}
	var project struct {
		Team string `json:"team_id"`
	}
	var team struct {
		Key string `json:"key"`
	}
	if c.Get(ctx, projectKind().at(id), nil, &project) != nil || project.Team == "" || c.Get(ctx, teamKind().at(project.Team), nil, &team) != nil {
		return unknown
	}
	return cmp.Or(team.Key, unknown)
}

// explainGates prints, for each gate that would refuse the job, the line of the file and what mends it.
func (t *tool) explainGates(ctx context.Context, c *client.Client, file jobFile, gates []json.RawMessage) {
	for _, raw := range gates {
		var v struct {
			Gate   string `json:"gate"`
			Status string `json:"status"`
			Detail string `json:"detail"`
		}
		if json.Unmarshal(raw, &v) != nil || v.Status != "fail" {
			continue
		}
		for _, problem := range t.gateProblems(ctx, c, file, v.Gate, v.Detail) {
			t.Say("%s", problem)
		}
		if remedy := t.remedy(ctx, c, file, v.Gate, v.Detail); remedy != "" {
			t.Say("  %s", remedy)
		}
	}
}
