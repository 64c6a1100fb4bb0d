package packager

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// one returns the shape of a token that begins with one of the hints.
func one(name, pattern string, hints ...string) shape {
	return shape{
		name: name, hints: hints, real: cased,
		pattern: regexp.MustCompile(`(?:^|[^A-Za-z0-9]|\\[nrt])(` + pattern + `)`),
	}
}

// with returns a shape with another test of its matches.
func (h shape) with(real func(match string) bool) shape {
	h.real = real
	return h
}

// tokenShapes returns the shapes of the tokens of this product and of well-known services.
func tokenShapes() []shape {
	own := []string{
		secret.KindIngest, secret.KindDeployment, secret.KindRefresh, secret.KindFleetJoin, secret.KindShare, secret.KindDevice,
		secret.KindCode, secret.KindLease, secret.KindLink,
	}
	begins := make([]string, len(own))
	for i, kind := range own {
		begins[i] = kind + "_"
	}
	signalbox := one("Signalbox token", `(?:`+strings.Join(own, "|")+`)_[0-9A-Za-z]{49}`, begins...)
	signalbox.real = func(match string) bool { return secret.Kind(match) != "" }
	dashed := one("API key", `sk-[A-Za-z0-9_-]{32,}`, "sk-")
	dashed.real = mixed
	amazon := one("AWS access key", `(?:AKIA|ASIA)[A-Z0-9]{16}(?:[^A-Za-z0-9]|$)`, "AKIA", "ASIA")
	amazon.real = varied
	slack := one("Slack token", `xox[abeoprs]-[A-Za-z0-9-]{20,}`, "xox")
	slack.real = numbered
	return []shape{
		signalbox,
		dashed,
		amazon,
		one("Google API key", `AIza[A-Za-z0-9_-]{35}`, "AIza"),
		one("Google OAuth token", `ya29\.[A-Za-z0-9_-]{30,}`, "ya29."),
		one("Google client secret", `GOCSPX-[A-Za-z0-9_-]{24,}`, "GOCSPX-"),
		one("GitHub token", `gh[pousr]_[A-Za-z0-9]{36}`, "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
		one("GitHub token", `github_pat_[A-Za-z0-9_]{60,}`, "github_pat_"),
		one("GitLab token", `(?:glpat|gldt|glrt|glptt|glsoat|gloas)-[A-Za-z0-9_-]{20,}`,
			"glpat-", "gldt-", "glrt-", "glptt-", "glsoat-", "gloas-"),
		one("Hugging Face token", `(?:hf_|api_org_)[A-Za-z0-9]{30,}`, "hf_", "api_org_"),
		slack,
		one("Slack webhook", `hooks\.slack\.com/services/T[A-Z0-9]{8,}/B[A-Z0-9]{8,}/[A-Za-z0-9]{20,}`, "hooks.slack.com"),
		one("Stripe key", `[sr]k_live_[A-Za-z0-9]{24,}`, "k_live_"),
		one("npm token", `npm_[A-Za-z0-9]{36}`, "npm_"),
		one("PyPI token", `pypi-[A-Za-z0-9_-]{60,}`, "pypi-"),
		one("JSON web token", `eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}`, "eyJ"),
	}
}

// serviceShapes returns the shapes of the tokens of more services. Their lengths are those of real tokens.
func serviceShapes() []shape {
	const end = `(?:[^A-Za-z0-9]|$)`
	return []shape{
		one("Weights & Biases key", `wandb_v1_[A-Za-z0-9_]{40,}`, "wandb_v1_").with(mixed),
		one("Weights & Biases key", `wandb\.login\([^()\n]{0,100}["'][0-9a-f]{40}["']`, "wandb.login(").with(opaque),
		one("Vault token", `hv[sbr]\.[A-Za-z0-9_-]{24,}`, "hvs.", "hvb.", "hvr.").with(mixed),
		one("Terraform token", `[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}`, ".atlasv1.").with(mixed),
		one("Azure key", `AccountKey=[A-Za-z0-9+/]{86}==`, "AccountKey=").with(func(match string) bool {
			const emulator = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq" // the known key of every emulator
			return mixed(match) && !strings.Contains(match, emulator)
		}),
		one("Azure key", `SharedAccessKey=[A-Za-z0-9+/]{43}=`, "SharedAccessKey=").with(mixed),
		one("Replicate token", `r8_[A-Za-z0-9]{37}`+end, "r8_").with(mixed),
		one("Groq key", `gsk_[A-Za-z0-9]{52}`+end, "gsk_").with(mixed),
		one("Pinecone key", `pcsk_[A-Za-z0-9]{4,8}_[A-Za-z0-9]{50,}`, "pcsk_").with(mixed),
		one("Databricks token", `dapi[0-9a-f]{32}(?:-[0-9])?`+end, "dapi").with(opaque),
		one("Docker token", `dckr_[op]at_[A-Za-z0-9_-]{27,}`, "dckr_pat_", "dckr_oat_").with(mixed),
		one("DigitalOcean token", `do[opr]_v1_[0-9a-f]{64}`+end, "dop_v1_", "doo_v1_", "dor_v1_").with(opaque),
		one("SendGrid key", `SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}`, "SG.").with(mixed),
		one("Slack token", `xapp-[0-9]-[A-Z0-9]{8,}-[0-9]{8,}-[A-Za-z0-9]{32,}`, "xapp-").with(opaque),
		one("Shopify token", `shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}`+end, "shpat_", "shpca_", "shppa_", "shpss_").with(opaque),
		one("Linear key", `lin_(?:api|oauth)_[A-Za-z0-9]{40,}`, "lin_api_", "lin_oauth_").with(mixed),
		one("Notion token", `ntn_[0-9]{9,12}[A-Za-z0-9]{34,38}`+end, "ntn_").with(mixed),
		one("Atlassian token", `ATATT3[A-Za-z0-9_=-]{100,}`, "ATATT3").with(mixed),
		one("age key", `AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}`, "AGE-SECRET-KEY-1").with(opaque),
		// The hint is rare enough, because a digit and a colon precede it in the pattern.
		one("Telegram token", `(?:bot)?[0-9]{8,10}:A[A-Za-z0-9_-]{34}(?:[^A-Za-z0-9_-]|$)`, ":A").with(mixed),
	}
}

// fileShapes returns the shapes of secrets in the files and requests of well-known programs.
func fileShapes() []shape {
	return []shape{
		{name: "login of Docker", hints: []string{"auths"}, real: varied, pattern: regexp.MustCompile(
			`\\?"auths\\?"\s*:\s*\{(?:[^{}]*\{[^{}]*\})*?[^{}]*\{[^{}]*"(?:auth|identitytoken|password)\\?"\s*:\s*\\?"([A-Za-z0-9+/=._-]{8,})`)},
		{name: "login of Docker", hints: []string{encodedLogins}, real: logins, pattern: regexp.MustCompile(
			encodedLogins + `[A-Za-z0-9+/]{20,}`)},
		{name: "login of npm", hints: []string{"_auth", "_password"}, real: opaque, text: true, pattern: regexp.MustCompile(
			`(?m)(?:^|:)[ \t]*_(?:auth|authToken|password)[ \t]*=[ \t]*["']?([A-Za-z0-9+/=_.-]{12,})["']?[ \t\r]*$`)},
		{name: "private JSON web key", hints: []string{`"kty`}, real: mixed, pattern: regexp.MustCompile(
			`[{,]\s*\\?"d\\?"\s*:\s*\\?"([A-Za-z0-9_-]{40,})\\?"`)},
		{name: "bearer token", hints: []string{"bearer"}, fold: true, real: random, text: true, pattern: regexp.MustCompile(
			`(?i)authorization\\?["']?\]?\s*[:=,]\s*[bf]?\\?["']?bearer\s+([A-Za-z0-9._~+/=-]{20,})`)},
	}
}

// encodedLogins is what `{"auths":` is in base64, with which secrets of Kubernetes begin.
const encodedLogins = "eyJhdXRocyI6"

// logins reports whether a text in base64 has a login of Docker.
func logins(match string) bool {
	text, err := base64.StdEncoding.DecodeString(match[:len(match)/4*4])
	return err == nil && bytes.Contains(text, []byte(`"auth"`))
}
