package secret_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

func TestMask(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"sk-proj-Abc123_x-yz":                                                      "*",
		"sk-cs-news-commentary":                                                    "",
		"sk-learn-gradient-boosting":                                               "",
		`{"out":"KEY:\nsk-abcdefgh1234"}`:                                          `{"out":"KEY:\n*"}`,
		`KEY:\u000ahf_AbCdEfGhIj0123456789 \tghp_0123456789abcdef`:                 `KEY:\u000a* \t*`,
		`twice escaped: \\nsk-abcd1234 \\u000ahf_AbCdEfGhIj0123456789`:             `twice escaped: \\n* \\u000a*`,
		`three times: \\\\nsk-abcd1234 \\\\tghp_0123456789abcdef`:                  `three times: \\\\n* \\\\t*`,
		`\\\neyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.`:                                 `\\\n*`,
		`nsk-abcd1234 u000ask-abcd1234`:                                            "",
		"key=sk-abcdefghijklmnop;":                                                 "key=*;",
		"OPENAI_sk-abcd1234":                                                       "OPENAI_*",
		"hf_AbCdEfGhIj0123456789":                                                  "*",
		"ghp_0123456789abcdef gho_0123456789abcdef":                                "* *",
		"github_pat_11ABCDEFG0_abcdefgh":                                           "*",
		"glpat-ab_cd-efgh1234":                                                     "*",
		"xoxb-123456789012-abcdef":                                                 "*",
		"AKIAIOSFODNN7EXAMPLE":                                                     "*",
		"AIzaSyA1234567890abcdefghijklmnopqrstuv":                                  "*",
		"Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0. next":                         "Bearer * next",
		"https://user:pass@host/x?y":                                               "https://*@host/x?y",
		"git+ssh://token@host/x and https://a@b":                                   "git+ssh://*@host/x and https://*@b",
		"-----BEGIN RSA PRIVATE KEY-----\nab\n-----END RSA PRIVATE KEY-----\nrest": "*\nrest",
		"-----BEGIN OPENSSH PRIVATE KEY-----\nab":                                  "*",
		// These are ordinary texts.
		"task-based-evaluation-1234": "",
		"risk-adjusted sk-learn":     "",
		"hf_export hf_llama3":        "",
		"high ghost ghp_ gh":         "",
		"eyJhbGciOi is not a token":  "",
		"see https://host/a@b?c=d@e": "",
		"mail a@b, ratio 3://4":      "",
		"AKIA":                       "",
		"":                           "",
	} {
		if want == "" {
			want = given
		}
		require.Equal(t, want, secret.Mask(given, "*"), given)
	}
}

func TestMask_ownTokens(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{
		secret.KindIngest, secret.KindDeployment, secret.KindRefresh, secret.KindFleetJoin, secret.KindShare, secret.KindDevice,
		secret.KindCode, secret.KindLease, secret.KindLink,
	} {
		token, err := secret.Mint(rand.Reader, kind)
		require.NoError(t, err)
		require.Equal(t, "a * b", secret.Mask("a "+token.Reveal()+" b", "*"))
	}
}

func TestMask_longText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("eyJ-----BEGIN ghsk-://@ ", 100_000)
	require.NotContains(t, secret.Mask(long+" sk-abcd1234", "*"), "sk-abcd1234")
}
