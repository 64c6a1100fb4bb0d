package packager

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	lowerHex = "0123456789abcdef"
	capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	letters  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	alnum    = letters + "0123456789"
)

// example is a file with a name and a content.
type example struct{ name, text string }

// source makes random texts, the same in each run of the tests.
type source struct{ r *rand.Rand }

// of returns n characters of an alphabet. They begin with a letter of each case and two digits if the alphabet has them.
func (s source) of(alphabet string, n int) string {
	out := make([]byte, 0, n)
	for _, c := range []byte("aZ47") {
		if strings.IndexByte(alphabet, c) >= 0 {
			out = append(out, c)
		}
	}
	for len(out) < n {
		out = append(out, alphabet[s.r.IntN(len(alphabet))])
	}
	return string(out)
}

// pem returns a block that is not a key.
func (s source) pem(kind, headers string) string {
	return "-----BEGIN " + kind + "-----\n" + headers + s.of(alnum, 64) + "\n" + s.of(alnum, 64) + "\n-----END " + kind + "-----\n"
}

// secrets returns files that are refused.
func secrets(t *testing.T) []example {
	t.Helper()
	s := source{rand.New(rand.NewChaCha8([32]byte{}))}
	key := s.pem("PRIVATE KEY", "")
	all := make([]example, 0, 120)
	for _, name := range []string{
		".env", ".env.local", "src/.ENV.production", ".envrc", "tls/server.pem", "server.key", "id_rsa", "deploy/id_rsa_work", "id_ed25519",
		"id_ecdsa", "cert.p12", "cert.pfx", "credentials", "credentials.json", ".aws/credentials", ".netrc", "_netrc", ".pypirc", ".pgpass",
		".git-credentials",
		"kubeconfig", "prod.kubeconfig", ".kube/config", ".docker/config.json", "putty.ppk", "passwords.kdbx",
		".kaggle/kaggle.json", ".vault-token", ".terraformrc",
	} {
		all = append(all, example{name, "nothing\n"})
	}
	for _, text := range []string{
		key,
		s.pem("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n"),
		s.pem("OPENSSH PRIVATE KEY", ""),
		s.pem("EC PRIVATE KEY", ""),
		s.pem("PGP PRIVATE KEY BLOCK", "Version: 1\n\n"),
		`{"key": "` + strings.ReplaceAll(key, "\n", `\n`) + `"}`,
		"KEY = (\"-----BEGIN PRIVATE KEY-----\\n\"\n       \"" + s.of(alnum, 64) + "\")\n",
		`{"type": "service_account", "project_id": "p", "private_key": "x"}`,
		"users:\n- user:\n    client-key-data: " + s.of(alnum, 80) + "\n",
		"key: AK" + "IA" + s.of(capitals, 16) + "\n",
		"aws_secret_access_key = " + s.of(alnum+"/+", 40) + "\n",
		"K='AI" + "za" + s.of(alnum, 35) + "'\n",
		"ya" + "29." + s.of(alnum, 60),
		"GOC" + "SPX-" + s.of(alnum, 28),
		"git clone with gh" + "p_" + s.of(alnum, 36),
		"gith" + "ub_pat_" + s.of(alnum, 22) + "_" + s.of(alnum, 59),
		"glp" + "at-" + s.of(alnum, 20),
		"login(\"h" + "f_" + s.of(letters, 34) + "\")",
		`x = "a\nh` + "f_" + s.of(letters, 34) + `"`,
		"s" + "k-" + s.of(alnum, 48),
		"client(\"s" + "k-proj-" + s.of(alnum, 60) + "\")",
		"xo" + "xb-123456789012-" + s.of(alnum, 24),
		"https://hooks.slack" + ".com/services/T" + s.of(capitals, 9) + "/B" + s.of(capitals, 9) + "/" + s.of(alnum, 24),
		"s" + "k_live_" + s.of(alnum, 24),
		"n" + "pm_" + s.of(alnum, 36),
		"pyp" + "i-" + s.of(alnum, 80),
		"ey" + "J" + s.of(alnum, 30) + ".ey" + "J" + s.of(alnum, 60) + "." + s.of(alnum, 43),
		"url = \"postgres://me:" + s.of(alnum, 20) + "@db/x\"",
		"WANDB_API_KEY=" + s.of(lowerHex, 40) + "\n",
		"export SERVICE_SECRET=\"" + s.of(alnum, 32) + "\"\n",
		"\"password\": \"" + s.of(alnum, 24) + "\",",
		"token: " + s.of(alnum, 40) + "\n",
		"auth_key := \"" + s.of(alnum, 32) + "\"\n",
	} {
		all = append(all, example{"train.py", text})
	}
	for _, text := range s.more() {
		all = append(all, example{"train.py", text})
	}
	for _, kind := range []string{secret.KindIngest, secret.KindDeployment, secret.KindRefresh, secret.KindFleetJoin, secret.KindShare} {
		token, err := secret.Mint(rand.NewChaCha8([32]byte{1}), kind)
		require.NoError(t, err)
		all = append(all, example{"train.py", "signalbox.init(\"" + token.Reveal() + "\")\n"})
	}
	return all
}

// innocents returns files that look like secrets and are packed.
func innocents() []example {
	all := make([]example, 0, 110)
	for _, name := range []string{
		".env.example", ".env.sample", "src/.env.template", "environment.py", "env.py", "dotenv.md", "keys.py", "key.txt", "monkey.json",
		"keyboard.key.py",
		"pem.py", "pemfile.txt", "my_id_rsa_notes.md", "rsa.py", "p12.go", "load_credentials.py", "aws_credentials.md", "netrc.py", "pgpass.md",
		"config", "config.json", "docker/config.json", "kube/config", "kubeconfig.py", "service_account.json", "secret.py", "token.json",
		"tokenizer.json",
	} {
		all = append(all, example{name, "nothing\n"})
	}
	for _, text := range []string{
		"-----BEGIN PUBLIC KEY-----\n" + strings.Repeat("MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A", 2) + "\n-----END PUBLIC KEY-----\n",
		"-----BEGIN CERTIFICATE-----\n" + strings.Repeat("MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A", 2) + "\n",
		`if "-----BEGIN PRIVATE KEY-----" in text:` + "\n    raise ValueError\n",
		"-----BEGIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----\n",
		"-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("x", 64) + "\n",
		`kind = "service_account"`,
		"AKIAIOSFODNN7EXAMPLE",
		"AKIA" + strings.Repeat("X", 16),
		"SLAKIA7ABCDEFGHIJKLMNOPQ",
		"gh" + "p_" + strings.Repeat("x", 36),
		"hf_hub_download(repo_id, filename)",
		"hf_transformersforsequenceclassification",
		"token = os.environ[\"HF_TOKEN\"]",
		"HF_TOKEN=hf_...\n",
		"OPENAI_API_KEY=sk-...\n",
		"sk-learn-gradient-boosting-classifier-with-early-stopping",
		"task-based-evaluation-of-language-models-1234",
		"eyJhbGciOi is not a token",
		"pad_token = \"<|endoftext|>\"\neos_token: \"</s>\"\n",
		"tokenizer = \"meta-llama/Llama-3.1-8B-Instruct\"\n",
		"unk_token: \"meta-llama/Llama-3.1-8B-Instruct\"\n",
		"password = \"correcthorsebatterystaple\"\n",
		"API_KEY=your-api-key-goes-here-1234567890\n",
		"token = generate_token_from_config_v2_35(settings)\n",
		"postgres://user:password@localhost/db",
		"postgres://user:${DB_PASSWORD_2026aB}@localhost/db",
		"num_tokens=12345678901234567890123\n",
		"sha256 = \"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"\n",
		"commit: 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12\n",
		"api_key: 123e4567-e89b-12d3-a456-426614174000\n",
		"training_" + strings.Repeat("Ab1", 17) + "\n",
		"git@github.com:org/repo.git and https://github.com/org/repo@v1.2.3",
		"token_sha256 = \"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"\n",
	} {
		all = append(all, example{"train.py", text})
	}
	for _, text := range lookAlikes() {
		all = append(all, example{"train.py", text})
	}
	return all
}

func TestSecretsAreRefused(t *testing.T) {
	t.Parallel()
	all := secrets(t)
	require.GreaterOrEqual(t, len(all), 40)
	for _, c := range all {
		// A negation does not overrule the refusal.
		h := newHarness(t).put(c.name, c.text).put(OwnIgnoreFile, "!*\n!/"+c.name+"\n").put("other.py", "x")
		l := h.list()
		require.Len(t, l.Refusals, 1, "%q %q", c.name, c.text)
		require.Equal(t, c.name, l.Refusals[0].Path)
		require.NotContains(t, l.sent(), c.name)
		var out bytes.Buffer
		var refused *RefusedError
		require.ErrorAs(t, l.Pack(t.Context(), &out), &refused)
		require.Contains(t, refused.Error(), c.name)
		require.Zero(t, out.Len(), "nothing is written")
	}
}

func TestInnocentFilesArePacked(t *testing.T) {
	t.Parallel()
	all := innocents()
	require.GreaterOrEqual(t, len(all), 40)
	for _, c := range all {
		l := newHarness(t).put(c.name, c.text).list()
		require.Empty(t, l.Refusals, "%q %q", c.name, c.text)
		require.Equal(t, []string{c.name}, l.sent())
	}
}

func TestExcludedSecretsAreNotRefused(t *testing.T) {
	t.Parallel()
	l := newHarness(t).put(".env", "A=1").put("keys/id_rsa", "x").put(".gitignore", ".env\nkeys/\n").list()
	require.NoError(t, l.Err())
	require.Equal(t, []string{".gitignore"}, l.sent())
}

func TestRead_findsSecretsAnywhere(t *testing.T) {
	t.Parallel()
	token := "gh" + "p_" + source{rand.New(rand.NewChaCha8([32]byte{2}))}.of(alnum, 36)
	shapes := compileShapes()
	for _, before := range []int{0, 1, windowSize - 20, windowSize - 1, windowSize, windowSize + 1, 2*windowSize + overlap - 20} {
		text := strings.Repeat("\n", before) + token + strings.Repeat("\n", windowSize)
		got, err := read(t.Context(), strings.NewReader(text), shapes, int64(len(text)), newWindow())
		require.NoError(t, err)
		require.Equal(t, &finding{rule: "GitHub token", line: before + 1}, got.finding)
		require.Equal(t, int64(len(text)), got.size)
		_, err = read(t.Context(), strings.NewReader(text), shapes, int64(len(text))-1, newWindow())
		require.ErrorIs(t, err, errLarge)
	}
	got, err := read(t.Context(), strings.NewReader("\x00\n"+token), shapes, 100, newWindow())
	require.NoError(t, err)
	require.Equal(t, &finding{rule: "GitHub token"}, got.finding, "a binary file has no lines")
}
