package command

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWantedArtifact_rank(t *testing.T) {
	t.Parallel()
	run := []artifactRow{
		{ID: "1", Kind: "checkpoint", Format: "transformers"},
		{ID: "2", Kind: "hf_export", Format: "peft"},
		{ID: "3", Kind: "merged_model", Format: "safetensors"},
		{ID: "4", Kind: "merged_model", Format: "gguf"},
		{ID: "5", Kind: "merged_model", Format: "gguf"},
		{ID: "6", Kind: "eval_report", Format: "json"},
	}
	cases := []struct {
		wanted wantedArtifact
		from   []artifactRow
		id     string
	}{
		{wantedArtifact{}, run, "5"},
		{wantedArtifact{}, run[:3], "3"},
		{wantedArtifact{}, run[:2], "2"},
		{wantedArtifact{}, run[:1], ""},
		{wantedArtifact{format: "peft"}, run, "2"},
		{wantedArtifact{format: "safetensors"}, run, "3"},
		{wantedArtifact{kind: "checkpoint"}, run, "1"},
		{wantedArtifact{kind: "hf_export"}, run, "2"},
		{wantedArtifact{kind: "hf_export", format: "gguf"}, run, ""},
		{wantedArtifact{id: "6"}, run, "6"},
		{wantedArtifact{id: "7"}, run, ""},
	}
	for _, c := range cases {
		var best artifactRow
		least := -1
		for _, a := range c.from {
			if i := c.wanted.rank(a); i >= 0 && (least < 0 || i <= least) {
				best, least = a, i
			}
		}
		require.Equal(t, c.id, best.ID, "%+v of %d artifacts", c.wanted, len(c.from))
	}
}
