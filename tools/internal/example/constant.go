package example

import (
	"strings"
)

// The constants of examples. Their formats are those of the product. Secrets cannot be mistaken for real ones.
const (
	ulid   = "01kb4q6z8wexamp1eexamp1e00"
	secret = "Examp1eExamp1eExamp1eExamp1eExamp1eExamp1eExamp1e"
	digits = "3f79bb7b435b05321651daefd374cdc681dc06faa65e374e38337b88ca046dea"
	server = "https://signalbox.example.org"
)

// variables returns the values of the variables that the harness of the goldens sets, except ids.
func variables() map[string]string {
	return map[string]string{
		"unique": "aurora", "random": "u" + digits[:16], "project": "search", "base_url": server, "address": "192.0.2.10",
		"recipe_version": "1.0.0", "recipe_lock": `{"name":"custom/custom","version":"1.0.0","digest":"sha256:` + digits + `","framework":{"name":"command","runtime_id":"command-py311"}}`, "llm": "https://llm.example.org/v1",
		"train_ref": "ds/search/to-train-on@v1", "held_ref": "ds/search/held-out@v1", "protected_ref": "ds/search/kept-to-ourselves@v1",
		"taskset_ref": "env/search/arithmetic@v1", "taskset_digest": "sha256:" + digits, "rubric_ref": "rub/search/fair@1",
		"rubric_digest": "sha256:" + digits, "model_ref": "mdl/search/answers@1", "own_model": "mdl/search/own-1@1",
		"admin_password": "example-password-1", "team": "research", "ghost_pool": "gpu", "dataset_version": "v1", "model_version": "1",
		"certificate_request": "-----BEGIN CERTIFICATE REQUEST-----\\nMIIBexample\\n-----END CERTIFICATE REQUEST-----\\n",
		"broken_object":       "blob://runs/" + id("run") + "/1/model/" + digits + "/model.bin", "program": "https://program.example.org/client.json",
		"sign_in_link": "lnk_" + secret, "own_run": "run_01kb4q6z8wexamp1eexamp1e01",
		"joiner": "grace", "refresh": "srt_" + secret, "own_lease": token(),
	}
}

// prefixes returns the prefixes of the ids and tokens that variables of the harness hold.
func prefixes() map[string]string {
	return map[string]string{
		"run": "run", "live_run": "run", "sealed_run": "run", "broken_run": "run", "job": "job", "own_job": "job",
		"live_job": "job", "model": "mdl", "project_id": "prj", "deployment": "dep", "own_deployment": "dep", "ghost_node": "nod", "node": "nod",
		"artifact": "art", "team_id": "team", "own_work": "wrk", "fleet": "flt", "own_token_id": "tok", "session": "pg", "dataset": "ds",
	}
}

// token is a signed token without a valid signature.
func token() string { return "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJleGFtcGxlIn0." + secret }

func id(prefix string) string { return prefix + "_" + ulid }

// moment returns a time that is plausible for a member with the name.
func moment(name string) string {
	minute := "00"
	switch {
	case strings.Contains(name, "expire") || strings.Contains(name, "deadline") || strings.Contains(name, "until"):
		minute = "59"
	case strings.HasPrefix(name, "ended") || strings.HasPrefix(name, "finished") || strings.HasPrefix(name, "stopp") || strings.HasPrefix(name, "archived"):
		minute = "30"
	case strings.HasPrefix(name, "starting"), strings.HasPrefix(name, "running"), strings.HasPrefix(name, "updated"):
		minute = "05"
	}
	return "2026-11-21T03:" + minute + ":00.123456+00:00"
}
