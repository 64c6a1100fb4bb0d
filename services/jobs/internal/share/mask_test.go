package share

import (
	"testing"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

func TestMaskConfig(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		`{"api_key":"x"}`:                            `{"api_key":"***"}`,
		`{"openai.apiKey":"x"}`:                      `{"openai.apiKey":"***"}`,
		`{"OPENAI-API-KEY":1}`:                       `{"OPENAI-API-KEY":"***"}`,
		`{"db.Password":"x"}`:                        `{"db.Password":"***"}`,
		`{"client_secret_2":["x"]}`:                  `{"client_secret_2":["***"]}`,
		`{"aws":{"credentials":{"id":"x"}}}`:         `{"aws":{"credentials":{"id":"***"}}}`,
		`{"hf_token":"abcdefghijkl"}`:                `{"hf_token":"***"}`,
		`{"hfToken":"abcdefghijkl"}`:                 `{"hfToken":"***"}`,
		`{"HFToken":"abcdefghijkl"}`:                 `{"HFToken":"***"}`,
		`{"WANDBKey":"abcdefghijkl"}`:                `{"WANDBKey":"***"}`,
		`{"HF_TOKEN":"abcdefghijkl"}`:                `{"HF_TOKEN":"***"}`,
		`{"wandb.key_2":"abcdefghijkl"}`:             `{"wandb.key_2":"***"}`,
		`{"tokens":["a","eyJhbGciOi.eyJzdWIiOi.x"]}`: `{"tokens":["a","***"]}`,
		`{"url":"postgres://u:p@host/db"}`:           `{"url":"***"}`,
		// These are not credentials.
		`{"hf_token":"abcdefghijk"}`:  "",
		`{"sort_key":12345678901234}`: "",
		`{"max_tokens":4096,"pad_token_id":0,"tokenizer":"mistral-tokenizer-v3","num_key_value_heads":8}`: "",
		`{"keyboard":"abcdefghijkl","monkey":"abcdefghijkl","turkey":"abcdefghijkl"}`:                     "",
		`{"password":null}`: "",
		`{"lr":1.0e-05,"n":12345678901234567890,"text":"<\u003e"}`: "",
		`{}`: "",
		``:   "",
	} {
		m := &jobsv1.SharedConfig{Hparams: []byte(given)}
		require.NoError(t, maskConfig(m), given)
		if want == "" {
			want = given
		}
		require.Equal(t, want, string(m.GetHparams()), given)
	}
}
