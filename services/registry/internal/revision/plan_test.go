package revision_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/manifest"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

func TestServing_Check(t *testing.T) {
	t.Parallel()
	safetensors := func(v *model.Version) { v.Format, v.Packed = model.FormatSafetensors, true }
	cases := map[string]struct {
		change  func(*model.Version)
		serving revision.Serving
		words   string
	}{
		"gguf":        {nil, revision.Serving{}, ""},
		"command":     {safetensors, revision.Serving{Engine: revision.EngineCommand, Command: []string{"serve"}}, ""},
		"rejected":    {func(v *model.Version) { v.Status, v.StatusReason = model.StatusRejected, "malformed" }, revision.Serving{}, "malformed"},
		"safetensors": {safetensors, revision.Serving{Args: []string{"--dtype", "float32", "-c=4096"}}, ""},
		"uploaded folder": {func(v *model.Version) {
			v.Format, v.Files = model.FormatSafetensors, []manifest.File{{Path: "config.json"}, {Path: "model.safetensors"}}
		}, revision.Serving{}, ""},
		"only weights": {func(v *model.Version) {
			v.Format, v.Files = model.FormatSafetensors, []manifest.File{{Path: "model.safetensors"}}
		}, revision.Serving{}, "needs the whole folder"},
		"safetensors with llamacpp":  {safetensors, revision.Serving{Engine: revision.EngineLlamaCpp}, "register its gguf artifact or use the engine transformers"},
		"gguf with transformers":     {nil, revision.Serving{Engine: revision.EngineTransformers}, "use the engine llamacpp"},
		"adapter":                    {func(v *model.Version) { v.Format = model.FormatPEFT }, revision.Serving{}, "deploy the merged model"},
		"command with transformers":  {safetensors, revision.Serving{Command: []string{"serve"}}, "belong to the engine command, not to transformers"},
		"option of llamacpp":         {safetensors, revision.Serving{Args: []string{"--parallel", "2"}}, "no option \"--parallel\"; it takes --ctx-size"},
		"command with llamacpp":      {nil, revision.Serving{Command: []string{"serve"}}, "belong to the engine command"},
		"requirements with llamacpp": {nil, revision.Serving{Requirements: "x"}, "belong to the engine command"},
		"unknown option":             {nil, revision.Serving{Args: []string{"--flash-attn"}}, "no option \"--flash-attn\""},
		"no command":                 {nil, revision.Serving{Engine: revision.EngineCommand}, "needs serving.command"},
		"empty command":              {nil, revision.Serving{Engine: revision.EngineCommand, Command: []string{""}}, "needs serving.command"},
	}
	for name, c := range cases {
		v := &model.Version{Number: 1, Status: model.StatusReady, Format: model.FormatGGUF}
		if c.change != nil {
			c.change(v)
		}
		err := c.serving.WithDefaults(v.Format).Check(v, "chat")
		if c.words == "" {
			require.NoError(t, err, name)
			continue
		}
		require.True(t, fault.Is(err, fault.Refused), name)
		require.Contains(t, fault.From(err).Text(), c.words, name)
	}
}

func TestServing_Check_embedding(t *testing.T) {
	t.Parallel()
	v := &model.Version{Number: 1, Status: model.StatusReady, Format: model.FormatSafetensors, Packed: true}
	require.ErrorContains(t, revision.Serving{}.WithDefaults(v.Format).Check(v, "embedding"), "transformers computes no embeddings")
	v.Format = model.FormatGGUF
	require.NoError(t, revision.Serving{}.WithDefaults(v.Format).Check(v, "embedding"))
}

// A command could print the files of a protected model. The other engines are programs of the platform.
func TestServing_Check_protectedModelNeedsOwnEngine(t *testing.T) {
	t.Parallel()
	for _, format := range []string{model.FormatGGUF, model.FormatSafetensors} {
		v := &model.Version{Number: 1, Status: model.StatusReady, Format: format, Packed: true, Protected: true}
		require.NoError(t, revision.Serving{}.WithDefaults(format).Check(v, "chat"))
		err := revision.Serving{Engine: revision.EngineCommand, Command: []string{"serve"}}.WithDefaults(format).Check(v, "chat")
		require.True(t, fault.Is(err, fault.Forbidden) && fault.HasCode(err, "dataset_protected"), "%v", err)
	}
}

func TestRevisionDigest(t *testing.T) {
	t.Parallel()
	of := func(digest string, s revision.Serving) string {
		d, err := revision.Digest(revision.Source{ModelID: "mdl_1", Version: 1}, digest, s.WithDefaults(model.FormatGGUF))
		require.NoError(t, err)
		return d
	}
	plain := of("sha256:a", revision.Serving{})
	require.Equal(t, plain, of("sha256:a", revision.Serving{Engine: revision.EngineLlamaCpp, Pool: "default", Args: []string{}}), "settings with explicit defaults have the same digest")
	require.Equal(t, plain, of("sha256:a", revision.Serving{Timeouts: &revision.Timeouts{}}))
	require.Equal(t, "sha256:3ebe1602", plain[:15], "revisions of earlier releases must keep their digests")
	require.NotEqual(t, plain, of("sha256:a", revision.Serving{Timeouts: &revision.Timeouts{IdleS: 1}}))
	require.NotEqual(t, plain, of("sha256:b", revision.Serving{}))
	require.NotEqual(t, plain, of("sha256:a", revision.Serving{Args: []string{"-c"}}))
}
